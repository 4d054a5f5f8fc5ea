-- The clocks of the server and of the installation
-- They must agree. Compare the server's with: date -u. A frozen clock is put back by: holdfast migrate.
select clock_timestamp() as server, holdfast.clock() as installation, clock_timestamp() - holdfast.clock() as difference
