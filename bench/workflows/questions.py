"""What is asked of the tables."""

STEPS = "select coalesce(sum(jsonb_array_length(steps -> 'steps')), 0) from holdfast.archive"
"""How many steps are recorded, of instances that have ended."""
PARKED = """
    select count(*) from holdfast.instances as i join holdfast.inbox as j on j.id = i.job_id
    where j.status = 'pending' and j.lease_generation = i.parked_generation
"""
"""How many instances wait."""
MARKS = "select count(*) from holdfast.steps where name = 'mark' and status = 'done'"
"""How many marks are recorded, of instances that have not ended."""
LAST_END = "select extract(epoch from max(finished_at))::float8 from holdfast.archive"
RESULTS = "select result::text from holdfast.archive order by seq"
FAMILY = """
    select extract(epoch from p.finished_at - p.created_at)::float8,
           extract(epoch from p.finished_at - max(c.finished_at))::float8,
           p.lease_generation - 1,
           count(*) filter (where c.status = 'completed')
    from holdfast.archive as p
    join holdfast.archive as c on c.kind = 'child'
    where p.kind = 'parent' and p.status = 'completed'
    group by p.finished_at, p.created_at, p.lease_generation
"""
"""Of a parent that has ended: seconds since its start, and since its last child ended; its wakes; its children."""
