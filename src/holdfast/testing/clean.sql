-- Remove every job and event, routes and endpoints, and what is remembered about them. Queues keep their modes, and are not paused any more.
-- Not truncate: that takes 9 ms on empty tables, this 0.6.
-- Locks    the rows; waits for transactions that have changed them.
with inbox as (delete from holdfast.inbox),
     archive as (delete from holdfast.archive),
     dedupe as (delete from holdfast.dedupe),
     once as (delete from holdfast.once),
     instances as (delete from holdfast.instances),
     steps as (delete from holdfast.steps),
     signals as (delete from holdfast.signals),
     asked_again as (delete from holdfast.asked_again),
     kinds as (delete from holdfast.kinds),
     schedules as (delete from holdfast.schedules),
     events as (delete from holdfast.events),
     routes as (delete from holdfast.routes),
     endpoints as (delete from holdfast.endpoints),
     consumers as (delete from holdfast.consumers),
     workers as (
         delete from holdfast.workers w
         where w.status <> 'alive' or w.last_seen_at < holdfast.clock() - interval '30 seconds')
update holdfast.queues q
set paused_at = null
where q.paused_at is not null
