-- Where people talk, in the order: 40 conversations of each team, halls with a given number of members,
-- the core that every power user is in, those open to the organization, those of a project (half of
-- them open to it), and the rest.

create table bench.places (id bigint primary key, part text not null, position bigint not null);
insert into bench.places
select i + 1, part, i - first
from (values ('team', 0, {afterTeams}), ('hall', {afterTeams}, {afterHalls}), ('core', {afterHalls}, {afterCore}),
  ('open', {afterCore}, {afterOpen}), ('project', {afterOpen}, {afterProjects}),
  ('rest', {afterProjects}, {conversations})) parts(part, first, after)
cross join lateral generate_series(first, after - 1) i;

insert into earshot.conversations (org_id, id, external_id, kind, visibility, project_id, ai_thread, ever_shared,
  external_readers, deleted, default_floor, head, title) overriding system value
select 1, id, 'c' || id,
  case when part in ('open', 'hall') then 'channel' when part = 'rest' and id % 3 = 0 then 'direct'
    when part = 'rest' and id % 3 = 1 then 'private' else 'group' end,
  case when part = 'open' then 'organization' when part = 'project' and position % 2 = 0 then 'project' else 'members' end,
  case when part = 'project' then 1 + position % {projects} end,
  id % 10 = 0, true, false, part = 'rest' and bench.roll(id, 12) < 0.01,
  -- One in ten was opened late: who reads it by the class alone begins in the middle.
  case when part in ('open', 'project') and bench.roll(id, 13) < 0.1 then 1 + head / 2 else 1 end,
  head, 'Conversation ' || id
from (
  select p.*, case when bench.roll(id, 10) < 0.3 then 0
    else bench.spread(bench.roll(id, 11), {messagesEach} / 15.0, {messagesEach} * 100 / 15.0) end as head
  from bench.places p
) drawn;
insert into earshot.conversation_revisions (org_id, conversation_id) select 1, id from earshot.conversations;
