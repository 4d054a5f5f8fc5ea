-- Store the routes of an application as its code has them.
-- Takes    $1 routes as JSON.
-- Returns  the names of new ones.
select d.name from holdfast.declare_routes($1::text::jsonb, true) as d (name)
