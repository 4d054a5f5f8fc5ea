-- The time, by the schema's clock.
select holdfast.clock() as now
