-- The settings on which speed and safety hang, as this session has them.
-- Takes    $1 names.
select s.name, current_setting(s.name) as value
from pg_settings s
where s.name = any ($1::text[])
