-- What every door fixes for itself, whatever the session that calls it has set. A login may ask the server
-- to send it plans and notices, and those of statements behind a door tell of rows that it cannot read.
do $$
declare
  door record;
begin
  for door in
    select p.oid::regprocedure as signature from pg_proc p
    where p.pronamespace = 'earshot'::regnamespace and p.prosecdef
  loop
    execute format('alter function %s set client_min_messages = warning', door.signature);
  end loop;
end $$;

-- A small table is read whole where it is cheaper, hidden rows and all: the cost of a call would tell of them.
alter function earshot.call_tool(bytea, text, jsonb, bytea) set enable_seqscan = off;
alter function earshot.retrieve(bytea, jsonb, bytea) set enable_seqscan = off;
alter function earshot.read_log(bytea, uuid, bytea, uuid, text, jsonb, bigint) set enable_seqscan = off;

-- No sample of texts is kept where statistics are, and no estimate depends on what the texts hold.
alter table earshot.messages alter column body set statistics 0;
alter table earshot.artifacts alter column body set statistics 0;
alter table earshot.artifacts alter column title set statistics 0;
alter table earshot.artifacts alter column terms set statistics 0;
alter table earshot.log_entries alter column blocks set statistics 0;
alter table earshot.log_mail alter column blocks set statistics 0;
alter table earshot.log_summaries alter column body set statistics 0;
alter table earshot.messages alter column terms set statistics 0;
alter table earshot.late_messages alter column message set statistics 0;
alter table earshot.open_postings alter column term set statistics 0;
