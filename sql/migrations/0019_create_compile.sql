-- What a compile chooses from, and the record of what was sent.

-- All that a compile for these readers chooses from: every entry of the view, the summaries that may be sent, the pins,
-- how the injections of this start stand, and what was sent last.
create function earshot.compile_log(p_live earshot.live, p_session uuid, p_mark bigint, p_readers text[],
  p_place earshot.namespaces, p_arguments jsonb, p_now timestamptz) returns earshot.looked
language plpgsql stable as $$
declare
  org constant bigint := p_live.org_id;
  result earshot.looked;
  restricted jsonb[];
  entries json;
  summaries jsonb;
  found_ids uuid[];
  placed constant earshot.source[] := array(
    select distinct row(f.conversation_id, f.seq, f.seq, f.revision)::source
    from entry_sources(p_live, coalesce(p_arguments -> 'sources', '[]'), p_now) f);
begin
  -- What the injections of this start came from: all of it readable now, or nothing is placed. INVARIANT 16: which was not is
  -- not told.
  if cardinality(placed) <> jsonb_array_length(coalesce(p_arguments -> 'sources', '[]')) then
    result.code := 'not_found';
    return result;
  end if;
  result.code := case
    -- What a turn may not put before these readers is not placed before them either.
    when jsonb_array_length(coalesce(p_arguments -> 'units', '[]')) > 0 then judge_place(p_live, p_place) end;
  result.code := coalesce(result.code, case
    when is_too_large(org, p_session, p_mark, p_readers, p_place) then 'too_large'
    when exists (select from jsonb_array_elements_text(p_arguments -> 'pins') as p(id)
      where not exists (select from log_view(org, p_session, p_mark, p_readers, p_place.agent, p_place.name) v
        where v.id = p.id::uuid)) then 'not_found' end);
  if result.code is not null then
    return result;
  end if;
  -- A log is read whole here, so its sources are too, once: asking for each entry costs more than the rest. And it is put
  -- together as text: a document within a document of type jsonb is built anew at each level.
  with sourced as materialized (
    select f.position, f.revision, jsonb_agg(source_json(f.name, f.id, f.seq, f.artifact, f.source_revision)
      order by f.name collate "C", f.seq) as sources
    from (
      select distinct s.position, s.revision, c.external_id as name, m.external_id as id, s.seq, a.id as artifact, s.source_revision
      from log_sources s
      join log_entries e on e.org_id = org and e.session_id = p_session and e.position = s.position and e.revision = s.revision
      join conversations c on c.org_id = org and c.id = s.conversation_id
      left join messages m on m.org_id = org and m.conversation_id = s.conversation_id and m.seq = s.seq
      left join artifacts a on a.org_id = org and a.conversation_id = s.conversation_id and a.seq = s.seq
      where s.org_id = org and s.session_id = p_session
        and (s.block is null or not e.restricted or is_shown(e.blocks, s.block, p_readers))
    ) f
    group by f.position, f.revision
  )
  select coalesce(json_agg(
      case when v.injection is null and s.position is null then
        json_build_object('at', v.pos, 'entry', v.id, 'revision', v.revision::text, 'role', v.role,
          'participant', v.participant, 'blocks', v.blocks)
      else (jsonb_build_object('at', v.pos, 'entry', v.id, 'revision', v.revision::text, 'role', v.role,
          'participant', v.participant, 'blocks', v.blocks)
        || case when v.injection is null then '{}' else jsonb_build_object('injection', v.injection) end
        || case when v.envelopes is null then '{}' else jsonb_build_object('envelopes', v.envelopes) end
        -- Of an entry whose sources are all hidden, it is not told that there are any.
        || case when s.position is null then '{}' else jsonb_build_object('sources', s.sources) end)::json end
      order by v.pos), '[]'),
    count(*), array_agg(v.whole) filter (where v.restricted)
  into entries, result.items, restricted
  from log_view(org, p_session, p_mark, p_readers, p_place.agent, p_place.name) v
  left join sourced s on s.position = v.pos and s.revision = v.revision;
  select coalesce(jsonb_agg(summary_json(org, p_session, s) || jsonb_build_object('covers', to_jsonb(s.positions)) order by s.nth),
      '[]'), coalesce(array_agg(s.id), '{}')
  into summaries, found_ids
  from standing_summaries(p_live, p_session, p_mark, p_place, p_now) s;
  if octet_length(summaries::text) > most_bytes() then
    result.code := 'too_large';
    return result;
  end if;
  result.result := json_build_object('mark', p_mark::text, 'entries', entries, 'summaries', summaries,
    'pins', (select coalesce(jsonb_agg(p.position order by p.position), '[]') from log_pins p
      where p.org_id = org and p.session_id = p_session and p.namespace = p_place.name),
    'verdicts', to_jsonb(judge_units(p_live, p_session, p_place, coalesce(p_arguments -> 'units', '[]'),
      (p_arguments ->> 'most')::integer, p_now)),
    'last', (select encode(l.chain, 'hex') from log_sends l
      where l.org_id = org and l.session_id = p_session and l.namespace = p_place.name));
  result.sources := summary_sources(org, p_session, found_ids) || placed;
  result.only_for := named_in_all(org, restricted, p_readers);
  return result;
end $$;

-- Puts a compile on record as sent: how far the log was read for it, the injections it held, and its messages as a chain of
-- hashes. What is not on record was not sent: nothing is given to a model before this is committed. One that the gateway
-- refuses, for its size, is on record as that (INVARIANT 17).
create function earshot.send_log(p_digest bytea, p_session uuid, p_audience bytea, p_handle uuid, p_mark bigint, p_held uuid[],
  p_chain bytea, p_items integer, p_refused text, out code text, out changes jsonb, out decision_id uuid)
language plpgsql volatile security definer
set search_path = earshot, pg_temp set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t timestamptz;
  org bigint;
  call earshot.session_call;
  place earshot.namespaces;
begin
  perform enter_grant(p_digest);
  org := current_organization();
  -- A close that is under way is waited for: what it hands on was not sent.
  perform from log_heads h where h.org_id = org and h.session_id = p_session for share;
  t := clock_timestamp();
  call := judge_session(p_digest, p_session, p_audience, t);
  code := call.code;
  changes := (call.live).changes;
  if code is null then
    place := namespace_of(call.session, p_handle);
    code := case when place.name is null then 'not_found'
      when not place.claimed or place.watermark < p_mark or p_mark is null then 'conflict'
      else p_refused end;
  end if;
  if code is null then
    insert into log_sends as l (org_id, session_id, namespace, mark, reached, held, chain, turn_id, sent_at)
    values (org, p_session, place.name, p_mark, p_mark, array(select e.id from log_entries e
        where e.org_id = org and e.session_id = p_session and e.id = any (p_held) and e.owner = place.name and e.change <= p_mark),
      -- What a bound turn places is not told by how much a later request begins like it.
      case when judge_place(call.live, place) is null then p_chain else '' end, (call.live).turn_id, t)
    on conflict (org_id, session_id, namespace) do update set mark = excluded.mark,
      reached = greatest(l.reached, excluded.reached), held = excluded.held, chain = excluded.chain,
      turn_id = excluded.turn_id, sent_at = excluded.sent_at;
  end if;
  decision_id := record_session_call(call, 'send', code, p_items, t);
end $$;

do $$
declare
  signature constant text := 'send_log(bytea, uuid, bytea, uuid, bigint, uuid[], bytea, integer, text)';
begin
  grant create on schema earshot to earshot_scoped;
  revoke execute on all functions in schema earshot from public;
  grant execute on all functions in schema earshot to earshot_scoped;
  execute format('alter function earshot.%s owner to earshot_scoped', signature);
  execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  revoke create on schema earshot from earshot_scoped;
end $$;
