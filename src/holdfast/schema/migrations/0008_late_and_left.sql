-- What came late, and what was left unfinished.

-- Who gets no answer to an enqueue asks again under the same id. The first try may be late and not lost: its session
-- stood still, or its packet is on its way. If the job has run and left the inbox by then, nothing would be in its way,
-- and there would be a second job. So whoever asks again first says so here, and commits that; and the first try looks
-- here after its insert (functions/in_time.sql).
--
-- The ids that were asked for again, for a day. Empty, unless answers were lost.
create table holdfast.asked_again (
    id uuid primary key,
    at timestamptz not null
);

-- Markers that were entered and not finished: few, and those past their horizon are forgotten. Not "done_at is null": the
-- planner would take this index, while it is empty, for statements that name one key.
create index idx_once_entered on holdfast.once (entered_at) where coalesce(done_at, 'infinity') = 'infinity';
