-- Change the status of an endpoint, and move its waiting deliveries: see schema/functions/change_endpoint.sql.
-- Takes    $1 endpoint, $2 status, $3 why, $4 the statuses from which it may change, $5 only if it has been failing since exactly
--          then (null: in any case), $6 who does it (null: Holdfast itself).
-- Returns  the status that it had, and how many deliveries were moved; null: it was not to be changed.
select c.was, c.moved from holdfast.change_endpoint($1, $2, $3, $4::text[], $5, $6::text) as c
