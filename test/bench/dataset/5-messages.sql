-- The messages of the conversations from {from} to {to}, as the product's writer fills them.

insert into earshot.messages (org_id, conversation_id, seq, external_id, kind, author_user_id, body, revision, state,
  reply_to, sent_at, edited_at, terms)
select 1, conversation_id, seq, 'm' || seq, 'message', author, body,
  case when state = 'live' then 1 else 2 end, state,
  case when seq > 1 and bench.roll(key, 45) < 0.1 then 'm' || 1 + floor(bench.roll(key, 46) * (seq - 1))::bigint end,
  timestamptz '2025-01-01' + make_interval(secs => conversation_id % 100000 + seq * 3600.0 + bench.roll(key, 47) * 3000),
  case when state = 'edited' then timestamptz '2025-12-01' end,
  {terms}('pg_catalog.english', body)
from (
  select m.*, v.people[1 + floor(bench.roll(key, 44) * cardinality(v.people))::integer] as author,
    case when m.state = 'deleted' then '' else
      a.phrase || ' ' || w.word || ' ' || b.phrase || ' ' || rare.word end as body
  from (
    select c.id as conversation_id, s.seq, c.id * 10000 + s.seq as key,
      case when bench.roll(c.id * 10000 + s.seq, 40) < 0.01 then 'deleted'
        when bench.roll(c.id * 10000 + s.seq, 40) < 0.03 then 'edited' else 'live' end as state
    from earshot.conversations c cross join lateral generate_series(1, c.head) s(seq)
    where c.org_id = 1 and c.id between {from} and {to}
  ) m
  left join bench.voices v on v.id = m.conversation_id
  join bench.phrases a on a.id = floor(bench.roll(key, 41) * {phrases})::integer
  join bench.phrases b on b.id = floor(bench.roll(key, 42) * {phrases})::integer
  join bench.words w on w.rank = floor(power({words}, bench.roll(key, 43)))::integer
  join bench.words rare on rare.rank = 1 + floor(bench.roll(key, 48) * {words})::integer
) said
order by conversation_id, seq;
