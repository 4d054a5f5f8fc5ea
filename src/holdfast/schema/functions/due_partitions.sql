-- The partitions whose newest row need not be kept any longer: days, and leaves of days that have others. A day or leaf that
-- is not of one number of days is due after "archive_days", or when the longest of those that have no leaf on that day is over.
--
-- A leaf is not due before its day has been over for a day: a row that ends on a day whose leaf is gone is an error. (If the
-- day itself is gone, the row goes to the default partition.)
create or replace function holdfast.due_partitions(archive_days int) returns setof text
    language sql stable
    set search_path = pg_catalog, pg_temp
    as $$
        with day as (
            select c.relname::text as name, to_date(substr(c.relname::text, 9), 'YYYYMMDD') as day, c.relkind = 'p' as divided,
                   array(select l.relname::text
                         from pg_inherits h join pg_class l on l.oid = h.inhrelid
                         where h.inhparent = c.oid) as leaves
            from pg_inherits h join pg_class c on c.oid = h.inhrelid
            where h.inhparent = 'holdfast.archive'::regclass and c.relname::text ~ '^archive_\d{8}$'
        ),
        part as (
            select d.name as of_day, p.name, d.day,
                   case
                       when p.name ~ '^archive_\d{8}_\d+d$' then
                           greatest(1, substring(p.name from '_(\d+)d$')::int)
                       when p.name ~ '^archive_\d{8}(_rest)?$' then
                           greatest(archive_days, d.divided::int,
                                    (select max(k.days)
                                     from holdfast.keeps_of(d.day) as k (days)
                                     where format('%s_%sd', d.name, k.days) <> all (d.leaves)))
                   end as days
            from day d
            cross join lateral unnest(case when cardinality(d.leaves) > 0 then d.leaves else array[d.name] end) as p (name)
        ),
        judged as (
            select p.of_day, p.name, coalesce(p.day < (holdfast.clock() at time zone 'UTC')::date - p.days, false) as due
            from part p
        ),
        together as (
            select j.*, bool_and(j.due) over (partition by j.of_day) as whole
            from judged j
        )
        select distinct case when t.whole then t.of_day else t.name end as name
        from together t
        where t.due
        order by name
    $$;
