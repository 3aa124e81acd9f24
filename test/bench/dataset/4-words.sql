-- What people say. Words follow Zipf's law: the common ones are real words with stop words among
-- them, the rare ones are made of syllables. A message is two phrases, a word by the law, and a rare word.

create table bench.words (rank integer primary key, word text not null);
insert into bench.words
select n, coalesce(
  (string_to_array('the to and a for of we is on it you in that this be with at are will have can please from by '
    || 'not today order week team budget delivery invoice meeting customer supplier price draft review plan report '
    || 'ship launch contract number project friday monday morning change update question answer account payment '
    || 'truck warehouse flour oven recipe kitchen shift schedule holiday salary hire offer candidate interview '
    || 'office building lease rent repair machine server database backup release version bug ticket test deploy '
    || 'design logo brand campaign email newsletter website translation market sales quarter target forecast tax '
    || 'audit lawyer license policy insurance claim refund return discount coupon stock pallet route driver '
    || 'customs border export import factory sample quality color size paper box label printer phone call note '
    || 'agenda decision approval signature deadline reminder travel hotel flight visa expense receipt bank loan', ' '))[n],
  -- Three of 128 syllables: an odd factor modulo 128 * 128 * 128 meets each number once.
  (select string_agg(
     (array['b','d','f','g','k','l','m','n','p','r','s','t','v','z','ch','st'])[1 + (n * 7919 % 2097152 >> (7 * k + 3)) % 16]
       || (array['a','e','i','o','u','ai','or','an'])[1 + (n * 7919 % 2097152 >> (7 * k)) % 8], '')
   from generate_series(0, 2) k))
from generate_series(1, {words}) n;

create table bench.phrases (id integer primary key, phrase text not null);
insert into bench.phrases
select p.id, string_agg(w.word, ' ' order by n.n)
from generate_series(0, {phrases} - 1) p(id)
cross join lateral generate_series(1, 3 + p.id % 4) n(n)
join bench.words w on w.rank = floor(power({words}, bench.roll(p.id * 10 + n.n, 30)))::integer
group by p.id;

-- Who writes in a conversation: its members.
create table bench.voices (id bigint primary key, people bigint[] not null);
insert into bench.voices
select conversation_id, array_agg(user_id order by user_id) from earshot.memberships group by conversation_id;
analyze bench.words, bench.phrases, bench.voices, bench.places, bench.people;
