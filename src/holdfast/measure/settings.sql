-- The settings that speed and safety depend on, as this session has them.
-- Takes    $1 names.
select s.name, current_setting(s.name) as value
from pg_settings s
where s.name = any ($1::text[])
