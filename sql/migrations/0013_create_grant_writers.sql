-- Grants from outside the agent: what one is, and its end.

-- Question: is this grant live, and what is it, for a caller that was handed its token?
-- `active` is false, and nothing else is told, of one that is unknown, not live, or of an organization or
-- persona that the caller is not registered for; a stranger's question looks at no fact of the organization. Otherwise
-- it is a check like any other: it is recorded, and a refusal that is for good revokes. No text is read.
create function earshot.introspect_grant(p_digest bytea, p_organizations text[], p_personas text[],
  out active boolean, out claims jsonb)
language plpgsql volatile security definer set search_path = earshot, pg_temp set jit = off as $$
declare
  t constant timestamptz := clock_timestamp();
  held record;
  live earshot.live;
  code text;
begin
  active := false;
  perform enter_grant(p_digest);
  select g.org_id, g.id, g.turn_id, g.session_id, o.external_id as organization, a.external_id as persona
  into held
  from grants g
  join turns turn on turn.org_id = g.org_id and turn.id = g.turn_id
  join organizations o on o.id = g.org_id
  join personas a on a.org_id = g.org_id and a.id = turn.persona_id
  where g.digest = p_digest;
  if not found then
    return;
  end if;
  if serves(p_organizations, held.organization) and serves(p_personas, held.persona) then
    live := live_check(p_digest, null, t);
    code := live.code;
    perform revoke_grant(held.org_id, held.id, code, live.changes, t);
  else
    code := 'not_found';
  end if;
  insert into decisions (org_id, id, decided_at, kind, verdict, code, turn_id, grant_id, session_id, audience_hash,
    policy_revision, detail)
  values (held.org_id, gen_random_uuid(), t, 'introspect', case when code is null then 'allowed' else 'refused' end, code,
    held.turn_id, held.id, held.session_id, (live.standing).audience_hash, (live.standing).policy_revision,
    jsonb_strip_nulls(jsonb_build_object('changes', live.changes)));
  if code is not null then
    return;
  end if;
  active := true;
  select jsonb_strip_nulls(jsonb_build_object(
      'grant', g.id, 'turn', g.turn_id, 'session', g.session_id, 'organization', held.organization,
      'persona', held.persona, 'requester', u.external_id, 'destination', c.external_id,
      'audienceHash', encode(g.audience_hash, 'hex'), 'mode', g.mode, 'projectBound', p.external_id,
      'policyRevision', g.policy_revision::text, 'fence', g.lease_fence::text, 'tools', to_jsonb(turn.tools),
      'issuedAt', extract(epoch from g.issued_at)::bigint::text,
      'expiresAt', extract(epoch from g.expires_at)::bigint::text))
  into strict claims
  from grants g
  join turns turn on turn.org_id = g.org_id and turn.id = g.turn_id
  join users u on u.org_id = g.org_id and u.id = turn.requester_id
  join conversations c on c.org_id = g.org_id and c.id = turn.destination_id
  left join projects p on p.org_id = g.org_id and p.id = g.project_bound
  where g.digest = p_digest;
end $$;

-- Revokes a grant from outside, for good: also one that has ended, so that what was cleared under it stays. Its
-- turn takes no further mint. Locks the turn, then the grant, as every other writer does.
create function earshot.withdraw_grant(p_organization text, p_client text, p_personas text[], p_grant uuid,
  out code text, out decision_id uuid)
language plpgsql volatile security definer set search_path = earshot, pg_temp as $$
declare
  org constant bigint := enter_organization(p_organization);
  turn constant earshot.turns := lock_turn(org, p_personas,
    (select g.turn_id from grants g where g.org_id = org and g.id = p_grant));
  t constant timestamptz := clock_timestamp();
begin
  if turn.id is null then
    code := 'not_found';
    decision_id := record_step(org, 'revoke', code, turn, null);
    return;
  end if;
  -- And the one that took its place, if it was replaced.
  update grants g set revoked_at = t, revoked_code = 'grant_revoked'
  where g.org_id = org and g.turn_id = turn.id and (g.id = p_grant or g.ended_at is null) and g.revoked_at is null;
  decision_id := gen_random_uuid();
  insert into decisions (org_id, id, decided_at, kind, verdict, turn_id, grant_id, detail)
  values (org, withdraw_grant.decision_id, t, 'revoke', 'allowed', turn.id, p_grant,
    jsonb_build_object('client', p_client));
end $$;

do $$
declare
  signature text;
begin
  grant create on schema earshot to earshot_scoped;
  revoke execute on all functions in schema earshot from public;
  grant execute on all functions in schema earshot to earshot_scoped;
  foreach signature in array array[
    'introspect_grant(bytea, text[], text[])',
    'withdraw_grant(text, text, text[], uuid)']
  loop
    execute format('alter function earshot.%s owner to earshot_scoped', signature);
    execute format('grant execute on function earshot.%s to earshot_runtime', signature);
  end loop;
  revoke create on schema earshot from earshot_scoped;
end $$;
