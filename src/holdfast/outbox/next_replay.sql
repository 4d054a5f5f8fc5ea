-- The number of the next replay.
select pg_catalog.nextval('holdfast.replays_seq')
