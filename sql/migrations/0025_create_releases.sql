-- Release by an owner: an artifact goes to people who do not read all that it was made from, because everybody who owns what
-- they do not read has said yes to these exact bytes for them.
--
-- A release covers one artifact, one SHA-256, a list of readers, until a moment; it forgives what stands in the way of a
-- delivery and nothing else, and makes nothing readable: no scope asks about it. Whatever is not known to be covered is not.
--
-- Locks are those of a delivery, which holds the releases of its bytes as the last (0009): an answer of an owner commits
-- before the check of a delivery and is seen, or waits and comes after.

create table earshot.artifact_releases (
  org_id bigint not null,
  id uuid not null,
  artifact_id uuid not null,
  body_sha256 bytea not null check (octet_length(body_sha256) = 32),
  destination_id bigint not null,
  -- Who reads the destination at the moment of asking: `kind`, `id`, and `guests` for a class that guests may be in.
  readers jsonb not null,
  -- Approved: by everybody who was asked. Refused by one is refused for good.
  status text not null default 'asked' check (status in ('asked', 'approved', 'refused')),
  requester_id bigint not null,
  turn_id uuid not null,
  grant_id uuid not null,
  idempotency_key text collate "C" not null,
  request_digest bytea not null,
  asked_at timestamptz not null,
  expires_at timestamptz not null,
  primary key (org_id, id),
  unique (org_id, turn_id, idempotency_key),
  foreign key (org_id, artifact_id) references earshot.artifacts (org_id, id),
  foreign key (org_id, destination_id) references earshot.conversations,
  foreign key (org_id, requester_id) references earshot.users,
  foreign key (org_id, turn_id) references earshot.turns,
  foreign key (org_id, grant_id) references earshot.grants
);
create index artifact_releases_by_bytes on earshot.artifact_releases (org_id, body_sha256);

-- Who was asked, as the owner of which conversation, and the answer. Refused after it was approved: withdrawn.
create table earshot.release_approvals (
  org_id bigint not null,
  release_id uuid not null,
  conversation_id bigint not null,
  owner_id bigint not null,
  approved_at timestamptz,
  refused_at timestamptz,
  primary key (org_id, release_id, conversation_id),
  foreign key (org_id, release_id) references earshot.artifact_releases,
  foreign key (org_id, conversation_id) references earshot.conversations,
  foreign key (org_id, owner_id) references earshot.users
);
create index release_approvals_by_owner on earshot.release_approvals (org_id, owner_id);

do $$
declare
  name text;
begin
  foreach name in array array['artifact_releases', 'release_approvals']
  loop
    execute format('alter table earshot.%I enable row level security', name);
    execute format('alter table earshot.%I force row level security', name);
    execute format('create policy organization on earshot.%I
      using (org_id = (select earshot.current_organization()))
      with check (org_id = (select earshot.current_organization()))', name);
    execute format('grant select, insert, update on earshot.%I to earshot_scoped', name);
  end loop;
end $$;

-- The artifact by whose release a delivery goes; its lineage is then that artifact's, and the artifact.
alter table earshot.deliveries add column artifact_id uuid;
alter table earshot.deliveries add foreign key (org_id, artifact_id) references earshot.artifacts (org_id, id);
grant select (artifact_id) on earshot.deliveries to earshot_runtime;

-- What a released text was made from: the artifact's lineage as it was saved, and the artifact.
create function earshot.released_sources(p_org bigint, p_artifact uuid) returns earshot.source[]
language plpgsql stable as $$
begin
  return array(
    select row(d.conversation_id, d.from_seq, d.to_seq, d.revision)::source from lineage d
    where d.org_id = p_org and d.derived_id = p_artifact
    union
    select row(a.conversation_id, a.seq, a.seq, 1)::source from artifacts a
    where a.org_id = p_org and a.id = p_artifact);
end $$;

-- The releases of these bytes that may count: none that is refused or over. Of one artifact, where one is named.
create function earshot.releases_of(p_org bigint, p_sha256 bytea, p_artifact uuid default null) returns uuid[]
language plpgsql stable as $$
begin
  return array(
    select r.id from artifact_releases r
    where r.org_id = p_org and r.body_sha256 = p_sha256 and (p_artifact is null or r.artifact_id = p_artifact)
      and r.status <> 'refused' and r.expires_at > clock_timestamp());
end $$;

-- The same, locked until the end: no owner's answer to them comes in between.
create function earshot.lock_releases(p_org bigint, p_sha256 bytea, p_artifact uuid default null) returns uuid[]
language plpgsql volatile as $$
begin
  return array(
    select r.id from artifact_releases r
    where r.org_id = p_org and r.body_sha256 = p_sha256 and (p_artifact is null or r.artifact_id = p_artifact)
      and r.status <> 'refused' and r.expires_at > clock_timestamp()
    order by r.id for share);
end $$;

-- Every conversation that decides about what the artifacts of these releases were made from, by its readers or its owner.
create function earshot.conversations_of_releases(p_org bigint, p_releases uuid[]) returns bigint[]
language plpgsql stable as $$
begin
  return array(
    select unnest(conversations_of(p_org, released_sources(p_org, of.artifact_id)))
    from (select distinct r.artifact_id from artifact_releases r where r.org_id = p_org and r.id = any (p_releases)) of);
end $$;

-- Each of these sources, and whatever those that are derived were made from: whether it is readable in the scope by itself,
-- whether it is still there, and whether it is another than was read. What a derived one was made from is beside it, so
-- its own conversation decides about it.
create function earshot.sources_toward(p_org bigint, p_sources earshot.source[], p_scope earshot.scope)
returns table (conversation_id bigint, readable boolean, there boolean, changed boolean)
language sql stable as $$
  select s.conversation_id,
    coalesce(case when s.to_seq is null then s.from_seq >= i.floor else seen.revision is not null end, false),
    c.id is not null and (s.to_seq is null or kept.revision is not null),
    s.revision is not null and kept.revision is distinct from s.revision
  from (
    select p.conversation_id, p.from_seq, p.to_seq, p.revision from unnest(p_sources) p
    union
    select f.conversation_id, f.from_seq, f.to_seq, null::bigint from earshot.inherited_sources(p_org, p_sources) f) s
  left join earshot.conversations c
    on c.org_id = p_org and c.id = s.conversation_id and not c.deleted and not c.staged
  left join lateral (select x.floor from earshot.in_scope(p_org, p_scope) x
    where x.conversation_id = s.conversation_id limit 1) i on true
  left join lateral (
    select m.revision
    from earshot.conversation_messages(p_org, s.conversation_id, i.floor, (p_scope).destination_id) m
    where m.seq = s.from_seq
    union all
    select a.revision from earshot.conversation_artifacts(p_org, s.conversation_id) a
    where i.floor is not null and a.seq = s.from_seq) seen on s.to_seq is not null
  left join lateral (
    select m.revision from earshot.messages m
    where m.org_id = p_org and m.conversation_id = s.conversation_id and m.seq = s.from_seq and m.state <> 'deleted'
    union all
    select a.revision from earshot.conversation_artifacts(p_org, s.conversation_id) a
    where a.seq = s.from_seq) kept on s.to_seq is not null
$$;

-- Who may be asked about a conversation: its present owner, if that is a person who is active. Null: nobody.
create function earshot.answering_owner(p_org bigint, p_conversation bigint) returns bigint
language plpgsql stable as $$
begin
  return (select (person_reader(p_org, c.owner_id)).key from conversations c
    where c.org_id = p_org and c.id = p_conversation and not c.deleted and not c.staged);
end $$;

-- Readers as a release lists them.
create function earshot.listed_readers(p_readers earshot.reader[]) returns jsonb
language sql immutable as $$
  select coalesce(jsonb_agg(jsonb_build_object('kind', r.kind, 'id', r.external_id)
      || case when r.kind <> 'user' and r.guest then '{"guests": true}'::jsonb else '{}' end
    order by r.kind collate "C", r.external_id collate "C"), '[]')
  from unnest(p_readers) r
$$;

-- Whether every one of these readers is on a release's list, by kind and id. A class stands for itself alone: neither for
-- those who are in it nor, once guests may be in it, for what it was.
create function earshot.lists_readers(p_list jsonb, p_readers earshot.reader[]) returns boolean
language sql immutable as $$
  select count(*) > 0 and bool_and(exists (
    select from jsonb_to_recordset(p_list) as l(kind text, id text, guests boolean)
    where l.kind = r.kind and l.id = r.external_id and (r.kind = 'user' or not r.guest or l.guests)))
  from unnest(p_readers) r
$$;

-- Question: does one of these releases let its bytes go to these readers, although they do not read all that these were made
-- from? It is approved, not over and not withdrawn, the artifact is live and has these bytes, every reader is on its
-- list, and every source that the scope does not hold is still there and has the yes of its conversation's present owner.
create function earshot.release_covers(p_org bigint, p_releases uuid[], p_sources earshot.source[], p_scope earshot.scope,
  p_readers earshot.reader[], p_now timestamptz) returns boolean
language plpgsql stable as $$
begin
  return cardinality(p_sources) > 0 and exists (
    select from artifact_releases r
    join artifacts a on a.org_id = p_org and a.id = r.artifact_id and a.state = 'live' and a.body_sha256 = r.body_sha256
    where r.org_id = p_org and r.id = any (p_releases) and r.status = 'approved' and r.expires_at > p_now
      and lists_readers(r.readers, p_readers)
      and not exists (
        select from sources_toward(p_org, p_sources, p_scope) s
        where not s.readable and not (s.there and exists (
          select from release_approvals o
          where o.org_id = p_org and o.release_id = r.id and o.conversation_id = s.conversation_id
            and o.approved_at is not null and o.refused_at is null
            and o.owner_id = answering_owner(p_org, o.conversation_id)))));
end $$;

-- The verdict on the sources of a text that goes by releases: null, or the refusal. Also where everything is readable there, a
-- release has to stand: it is why the lineage is the artifact's.
create function earshot.judge_released(p_org bigint, p_releases uuid[], p_sources earshot.source[], p_scope earshot.scope,
  p_readers earshot.reader[], p_now timestamptz) returns text
language plpgsql stable as $$
begin
  return case
    when release_covers(p_org, p_releases, p_sources, p_scope, p_readers, p_now) is not true then 'source_revoked'
    when exists (select from sources_toward(p_org, p_sources, p_scope) s where s.changed) then 'source_changed'
  end;
end $$;

-- Question: may a proposal go by one of these releases, which are of its bytes and locked? The first artifact by whose release
-- it is cleared; none: it is judged by the ledger, as any other.
create function earshot.judge_by_release(p_org bigint, p_digest bytea, p_destination bigint, p_releases uuid[],
  p_now timestamptz, out artifact_id uuid, out sources earshot.source[], out verdict earshot.verdict)
language plpgsql stable as $$
declare
  candidate record;
begin
  for candidate in
    select r.artifact_id, array_agg(r.id) as releases from artifact_releases r
    where r.org_id = p_org and r.id = any (p_releases) and r.status = 'approved' and r.expires_at > p_now
    group by r.artifact_id order by r.artifact_id
  loop
    sources := released_sources(p_org, candidate.artifact_id);
    verdict := judge_proposal(p_digest, p_destination, sources, p_now, candidate.releases);
    if verdict.code is null then
      artifact_id := candidate.artifact_id;
      return;
    end if;
  end loop;
end $$;

-- How a release stands at a moment: `expired` once its time is over, but for one that is refused, which stays so.
create function earshot.release_status(p_release earshot.artifact_releases, p_now timestamptz) returns text
language sql immutable as $$
  select case when (p_release).status <> 'refused' and (p_release).expires_at <= p_now then 'expired'
    else (p_release).status end
$$;

-- Asks the owners of whatever stands in the way of an artifact toward a destination. The artifact has to be one that this
-- grant may read and the destination one that the requester reads: whatever else it is, it is not there (INVARIANT 16).
-- Who reads the destination now is the server's to list (INVARIANT 8). A repeated key answers how the release stands;
-- with another request it is a conflict, and so is an artifact that may go there as it is.
create function earshot.ask_release(p_digest bytea, p_release uuid, p_artifact uuid, p_destination text, p_key text,
  p_request_digest bytea, p_lifetime interval,
  out code text, out release_id uuid, out status text, out owners integer, out expires_at text)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t timestamptz;
  org bigint;
  held_grant uuid;
  turn earshot.turns;
  live earshot.live;
  artifact earshot.artifacts;
  destination bigint;
  sources earshot.source[];
  locked bigint[];
  v earshot.verdict;
  found_release earshot.artifact_releases;
  unread bigint[];
begin
  perform enter_grant(p_digest);
  select g.org_id, g.id into org, held_grant from grants g where g.digest = p_digest;
  if not found then
    code := 'unknown_grant';
    return;
  end if;
  select t0.* into turn from turns t0 join grants g on g.org_id = t0.org_id and g.turn_id = t0.id
  where g.org_id = org and g.id = held_grant;
  select * into artifact from artifacts a where a.org_id = org and a.id = p_artifact and a.state = 'live';
  select c.id into destination from conversations c
  where c.org_id = org and c.external_id = p_destination and not c.deleted and not c.staged;

  -- Lock.
  locked := array(select turn.destination_id union select destination where destination is not null
    union select unnest(conversations_of(org, released_sources(org, p_artifact))));
  perform lock_readability(org, locked);
  select * into turn from turns t0 where t0.org_id = org and t0.id = turn.id for no key update;
  perform from grants g where g.org_id = org and g.id = held_grant for no key update;
  t := clock_timestamp();

  -- Check.
  live := live_check(p_digest, null, t);
  code := live.code;
  perform revoke_grant(org, held_grant, live.code, live.changes, t);
  sources := released_sources(org, p_artifact);
  if code is null then
    perform require_locked(conversations_of(org, sources), locked);
    code := case when destination is null or artifact.id is null
        or not exists (
          select from visible_messages(org, disclosure_scope(org, turn, turn.destination_id, live.standing, sources, t)) m
          where m.conversation_id = artifact.conversation_id and m.seq = artifact.seq)
        or reads(org, turn.requester_id, destination, t) is not true then 'not_found' end;
  end if;
  if code is null then
    select * into found_release from artifact_releases r
    where r.org_id = org and r.turn_id = turn.id and r.idempotency_key = p_key;
    code := case when found_release.request_digest <> p_request_digest then 'conflict' end;
  end if;
  if code is null and found_release.id is null then
    v := judge_disclosure(org, turn, destination, live.standing, sources, t);
    code := case when v.code is null then 'conflict' when v.code <> 'source_revoked' then v.code end;
  end if;
  if code is null and found_release.id is null then
    select array_agg(distinct s.conversation_id) filter (where not s.readable),
      case
        when bool_and(s.readable) or bool_or(not s.readable and (not s.there
          or answering_owner(org, s.conversation_id) is null)) then 'source_revoked'
        when bool_or(s.changed) then 'source_changed'
      end
    into unread, code
    from sources_toward(org, sources, disclosure_scope(org, turn, destination, v.standing, sources, t)) s;
  end if;
  if code is null and found_release.id is null then
    insert into artifact_releases (org_id, id, artifact_id, body_sha256, destination_id, readers, requester_id, turn_id,
      grant_id, idempotency_key, request_digest, asked_at, expires_at)
    values (org, p_release, p_artifact, artifact.body_sha256, destination, listed_readers((v.standing).readers),
      turn.requester_id, turn.id, held_grant, p_key, p_request_digest, t, t + p_lifetime)
    returning * into found_release;
    insert into release_approvals (org_id, release_id, conversation_id, owner_id)
    select org, p_release, c.id, answering_owner(org, c.id) from unnest(unread) as c(id);
  end if;

  if code is null then
    release_id := found_release.id;
    status := release_status(found_release, t);
    owners := (select count(distinct o.owner_id) from release_approvals o
      where o.org_id = org and o.release_id = found_release.id);
    expires_at := rfc3339(found_release.expires_at);
  end if;
  insert into decisions (org_id, id, decided_at, kind, verdict, code, turn_id, grant_id, subject_sha256, items, audience_hash,
    policy_revision, detail)
  values (org, gen_random_uuid(), t, 'ask release', case when ask_release.code is null then 'allowed' else 'refused' end,
    ask_release.code, turn.id, held_grant, found_release.body_sha256, ask_release.owners, (live.standing).audience_hash,
    (live.standing).policy_revision,
    jsonb_strip_nulls(jsonb_build_object('release', found_release.id, 'changes', live.changes)));
end $$;

-- A person who asks for oneself, where the organization has such a one and both are active. Null: nobody.
create function earshot.acting_person(p_org bigint, p_name text) returns bigint
language plpgsql stable as $$
begin
  return (select (person_reader(p_org, u.id)).key from users u
    join organizations o on o.id = u.org_id and o.status = 'active'
    where u.org_id = p_org and u.external_id = p_name);
end $$;

-- What a person is asked for: as the present owner, about artifacts that are there.
create function earshot.asked_of(p_org bigint, p_person bigint) returns setof earshot.release_approvals
language sql stable as $$
  select o.* from earshot.release_approvals o
  join earshot.conversations c on c.org_id = p_org and c.id = o.conversation_id and c.owner_id = o.owner_id
    and not c.deleted and not c.staged
  join earshot.artifact_releases r on r.org_id = p_org and r.id = o.release_id
  join earshot.artifacts a on a.org_id = p_org and a.id = r.artifact_id and a.state = 'live' and a.body_sha256 = r.body_sha256
  where o.org_id = p_org and o.owner_id = p_person
$$;

-- Question: may this person read an artifact now: every one of its sources, where the artifact is at home?
create function earshot.person_reads_artifact(p_org bigint, p_person bigint, p_artifact earshot.artifacts, p_now timestamptz)
returns boolean
language plpgsql stable as $$
begin
  return exists (
    select from visible_messages(p_org, scope_part(p_org, conversations_of(p_org, released_sources(p_org, p_artifact.id)),
      array[person_reader(p_org, p_person)], null, p_artifact.conversation_id, p_now)) m
    where m.conversation_id = p_artifact.conversation_id and m.seq = p_artifact.seq);
end $$;

-- Which of an artifact's sources are of these conversations, by name and number.
create function earshot.sources_within(p_org bigint, p_artifact uuid, p_conversations bigint[]) returns jsonb
language plpgsql stable as $$
begin
  return (
    select coalesce(jsonb_agg(
        case when s.from_seq < 0 then jsonb_build_object('type', 'artifact', 'conversation', c.external_id, 'artifact',
            (select a.id from artifacts a
             where a.org_id = p_org and a.conversation_id = s.conversation_id and a.seq = s.from_seq))
          when s.to_seq is null then
            jsonb_build_object('type', 'conversation', 'conversation', c.external_id, 'fromSeq', s.from_seq::text)
          else jsonb_build_object('type', 'message', 'conversation', c.external_id, 'seq', s.from_seq::text) end
      order by c.external_id collate "C", s.to_seq is not null, s.from_seq), '[]')
    from (select distinct x.conversation_id, x.from_seq, x.to_seq from unnest(released_sources(p_org, p_artifact)) x
          where x.conversation_id = any (p_conversations)) s
    join conversations c on c.org_id = p_org and c.id = s.conversation_id);
end $$;

-- The door for what a person is asked for, the newest first, those after `p_after` where one is named. Found, shown and
-- recorded in one statement on one snapshot (INVARIANT 5). Somebody who is asked for nothing, or is not there, is told
-- the same: nothing.
create function earshot.list_releases(p_organization text, p_person text, p_limit integer, p_after uuid,
  out releases jsonb, out more boolean)
language plpgsql volatile security definer set search_path = earshot, pg_temp set jit = off as $$
declare
  org constant bigint := enter_organization(p_organization);
  t constant timestamptz := clock_timestamp();
begin
  if org is null then
    releases := '[]';
    more := false;
    return;
  end if;
  with asked as materialized (
    select o.release_id, array_agg(o.conversation_id) as conversations, bool_and(o.approved_at is not null) as approved
    from asked_of(org, acting_person(org, p_person)) o
    group by o.release_id
  ), page as materialized (
    select k.*, r.artifact_id, r.body_sha256, r.destination_id, r.readers, r.expires_at, release_status(r, t) as status,
      row_number() over (order by r.asked_at desc, r.id) as place
    from asked k
    join artifact_releases r on r.org_id = org and r.id = k.release_id
    left join (select b.asked_at, b.id from asked a join artifact_releases b on b.org_id = org and b.id = a.release_id
               where b.id = p_after) last on true
    where p_after is null or r.asked_at < last.asked_at or (r.asked_at = last.asked_at and r.id > last.id)
    order by place limit p_limit + 1
  ), shown as materialized (
    select p.*, a.kind, a.title, a.body, a.content_type, c.external_id as destination,
      person_reads_artifact(org, acting_person(org, p_person), a, t) as readable
    from page p
    join artifacts a on a.org_id = org and a.id = p.artifact_id
    join conversations c on c.org_id = org and c.id = p.destination_id
    where p.place <= p_limit
  ), recorded as (
    insert into decisions (org_id, id, decided_at, kind, verdict, items, detail)
    select org, gen_random_uuid(), t, 'list releases', 'allowed', count(*),
      jsonb_build_object('texts', count(*) filter (where s.readable))
    from shown s
  )
  select coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
        'id', s.release_id, 'artifact', s.artifact_id, 'kind', s.kind, 'textSha256', encode(s.body_sha256, 'hex'),
        'destination', s.destination, 'readers', s.readers, 'sources', sources_within(org, s.artifact_id, s.conversations),
        'title', case when s.readable then s.title end, 'text', case when s.readable then s.body end,
        'contentType', s.content_type, 'status', s.status, 'approved', s.approved, 'expiresAt', rfc3339(s.expires_at)))
      order by s.place), '[]'),
    (select count(*) > p_limit from page)
  into releases, more
  from shown s;
end $$;

-- The door for a person's answer: yes to these bytes, or no, which also takes back a yes and is for good. It is for
-- the conversations that the person was asked about and owns now; without one, the release is not there.
create function earshot.answer_release(p_organization text, p_person text, p_release uuid, p_approves boolean,
  p_text_sha256 bytea, out code text, out status text)
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
  t timestamptz;
  answered earshot.artifact_releases;
  locked bigint[];
  own bigint[];
begin
  if org is null then
    code := 'not_found';
    return;
  end if;
  locked := array(select o.conversation_id from asked_of(org, acting_person(org, p_person)) o where o.release_id = p_release);

  -- Lock: nothing for somebody who is asked for nothing.
  if cardinality(locked) > 0 then
    perform lock_readability(org, locked);
    select * into answered from artifact_releases r where r.org_id = org and r.id = p_release for no key update;
  end if;
  t := clock_timestamp();

  -- Check.
  own := array(select o.conversation_id from asked_of(org, acting_person(org, p_person)) o where o.release_id = p_release);
  perform require_locked(own, locked);
  code := case
    when cardinality(own) = 0 then 'not_found'
    when not p_approves then null
    when p_text_sha256 is distinct from answered.body_sha256 then 'payload_mismatch'
    when release_status(answered, t) not in ('asked', 'approved') then 'conflict'
  end;
  if code is null then
    update release_approvals o
    set approved_at = case when p_approves then coalesce(o.approved_at, t) else o.approved_at end,
      refused_at = case when p_approves then o.refused_at else coalesce(o.refused_at, t) end
    where o.org_id = org and o.release_id = p_release and o.conversation_id = any (own);
    update artifact_releases r
    set status = case
      when not p_approves then 'refused'
      when exists (select from release_approvals o where o.org_id = org and o.release_id = p_release and o.approved_at is null)
        then r.status
      else 'approved' end
    where r.org_id = org and r.id = p_release
    returning * into answered;
    status := release_status(answered, t);
  end if;
  insert into decisions (org_id, id, decided_at, kind, verdict, code, subject_sha256, detail)
  values (org, gen_random_uuid(), t, case when p_approves then 'approve release' else 'refuse release' end,
    case when answer_release.code is null then 'allowed' else 'refused' end, answer_release.code, answered.body_sha256,
    jsonb_strip_nulls(jsonb_build_object('release', answered.id, 'conversations', nullif(cardinality(own), 0))));
end $$;

do $$
declare
  signature text;
begin
  grant create on schema earshot to earshot_scoped;
  revoke execute on all functions in schema earshot from public;
  grant execute on all functions in schema earshot to earshot_scoped;
  foreach signature in array array[
    'ask_release(bytea, uuid, uuid, text, text, bytea, interval)',
    'list_releases(text, text, integer, uuid)',
    'answer_release(text, text, uuid, boolean, bytea)']
  loop
    execute format('alter function earshot.%s owner to earshot_scoped', signature);
    execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  end loop;
  revoke create on schema earshot from earshot_scoped;
end $$;
