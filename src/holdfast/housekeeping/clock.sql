-- The database's time.
select holdfast.clock()
