-- A setting of this installation; null if there is none with this name.
create or replace function holdfast.setting(name text) returns jsonb
    language sql stable parallel safe
    return (select s.value from holdfast.settings s where s.name = setting.name);
