-- Set how jobs that are enqueued from now on will run; existing jobs stay as they are.
-- Takes    $1 queue; $2 ordered, $3 skips, $4 owned (null: unchanged); $5 who does it.
-- Returns  ordered, skips, owned.
with changed as (
    insert into holdfast.queues as q (name, ordered, skips, owned)
    values ($1, coalesce($2, false), coalesce($3, false), coalesce($4, false))
    on conflict (name) do update
        set ordered = coalesce($2, q.ordered), skips = coalesce($3, q.skips), owned = coalesce($4, q.owned)
    returning q.name, q.ordered, q.skips, q.owned
),
noted as (
    insert into holdfast.journal (at, what, subject, actor, details)
    select holdfast.clock(), 'queue.set', c.name, $5::text,
           pg_catalog.jsonb_build_object('ordered', c.ordered, 'skips', c.skips, 'owned', c.owned)
    from changed c
)
select c.ordered, c.skips, c.owned from changed c
