-- The clocks: of the server, and of the installation, which tests can freeze.
select clock_timestamp() as server, extract(epoch from holdfast.clock() - clock_timestamp())::float8 as installation
