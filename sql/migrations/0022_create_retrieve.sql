-- Several tool calls in one: one check, one snapshot, one decision.

-- The door for a packet of several calls. Check, scope, rows, ledger and record are one statement (INVARIANT 5), as in
-- `call_tool`; each call has its own result or its own refusal, such as a conversation that is not there. A grant that is
-- not live, or a tool that the turn does not allow, refuses all of them.
create function earshot.retrieve(p_digest bytea, p_calls jsonb, p_subject bytea,
  out code text, out decision_id uuid, out decided_at text, out grant_id uuid, out policy_revision bigint,
  out changes jsonb, out results jsonb)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t constant timestamptz := clock_timestamp();
begin
  perform enter_grant(p_digest);
  decision_id := gen_random_uuid();
  decided_at := rfc3339(t);
  with checked as materialized (
    select l.* from live_check(p_digest, null, t) l
  ), live as materialized (
    select l.*, coalesce(l.code, case when exists (
        select from jsonb_array_elements(p_calls) as c(call)
        join turns t0 on t0.org_id = l.org_id and t0.id = l.turn_id
        where not c.call ->> 'tool' = any (t0.tools)) then 'tool_not_allowed' end) as verdict
    from checked l
  ), result as materialized (
    select c.nth, coalesce(r.code, case when r.more is null then 'invalid_input' end) as code, r.hits, r.more, r.total
    from live l
    cross join lateral jsonb_array_elements(p_calls) with ordinality as c(call, nth)
    cross join lateral run_tool(row(l.verdict, l.org_id, l.grant_id, l.turn_id, l.session_id, l.destination_id,
      l.requester_id, l.standing, l.changes)::live, c.call ->> 'tool', c.call -> 'arguments', t) r
    where l.verdict is null
  ), shown as (
    insert into ledger_entries (org_id, session_id, conversation_id, from_seq, to_seq, revision, decision_id)
    select distinct l.org_id, l.session_id, (h.source).conversation_id, (h.source).from_seq, (h.source).to_seq,
      (h.source).revision, retrieve.decision_id
    from live l cross join result r cross join lateral unnest(r.hits) h
    where l.verdict is null and r.code is null
    -- In one order, so that of two calls that show the same one waits, and neither for the other.
    order by 3, 4
    on conflict do nothing
  ), recorded as (
    insert into decisions (org_id, id, decided_at, kind, verdict, code, turn_id, grant_id, session_id, tool,
      subject_sha256, items, audience_hash, policy_revision, detail)
    select l.org_id, retrieve.decision_id, t, 'tool',
      case when l.verdict is null then 'allowed' else 'refused' end, l.verdict, l.turn_id, l.grant_id,
      l.session_id, 'retrieve', p_subject, (select coalesce(sum(cardinality(r.hits)), 0) from result r where r.code is null),
      (l.standing).audience_hash, (l.standing).policy_revision,
      jsonb_strip_nulls(jsonb_build_object('changes', l.changes, 'calls', jsonb_array_length(p_calls)))
        || noted_standing(l.standing, l.verdict)
    from live l where l.org_id is not null
  )
  select l.verdict, l.grant_id, (l.standing).policy_revision, l.changes,
    (select jsonb_agg(jsonb_build_object('code', r.code, 'more', r.more, 'total', r.total, 'items',
        case when r.code is null then
          (select coalesce(jsonb_agg(h.item order by h.place), '[]') from unnest(r.hits) with ordinality as h(source, item, place)) end)
      order by r.nth) from result r)
  into code, grant_id, policy_revision, changes, results
  from live l;
  if code is not null then
    if code = 'unknown_grant' then
      -- It is of no organization, and so on no record.
      decision_id := null;
    end if;
    results := null;
    perform revoke_grant(current_organization(), retrieve.grant_id, code, changes, t);
  end if;
end $$;

do $$
declare
  signature constant text := 'retrieve(bytea, jsonb, bytea)';
begin
  grant create on schema earshot to earshot_scoped;
  revoke execute on all functions in schema earshot from public;
  grant execute on all functions in schema earshot to earshot_scoped;
  execute format('alter function earshot.%s owner to earshot_scoped', signature);
  execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  revoke create on schema earshot from earshot_scoped;
end $$;
