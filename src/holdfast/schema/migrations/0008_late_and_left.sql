-- Enqueues that arrive late, and markers that were not finished.

-- A caller that gets no answer to an enqueue retries it under the same id. The first try may be late, not lost: its session
-- was stopped, or its packet is still on the way. If the job has run and left the inbox by then, nothing would prevent the
-- first try from inserting a second job. So a retry first commits the id here, and the first try checks this table after
-- its insert (functions/in_time.sql).
--
-- The ids that were retried, kept for a day. Empty, unless answers were lost.
create table holdfast.asked_again (
    id uuid primary key,
    at timestamptz not null
);

-- Markers that were entered and not finished: few, and those past their horizon are deleted. Not "done_at is null": the
-- planner would use this index, while it is empty, for statements that name one key.
create index idx_once_entered on holdfast.once (entered_at) where coalesce(done_at, 'infinity') = 'infinity';
