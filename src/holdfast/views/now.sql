-- The time of the database.
select holdfast.clock() as now
