-- The job of an instance: see holdfast.instance_id.
-- Takes    $1 instance.
-- Returns  its id; null: unknown.
select holdfast.instance_id($1::text) as id
