-- Publish one event, from SQL and every other language. Returns its id. Rejects bad input before anything is stored.
create or replace function holdfast.publish(
    type text,
    data jsonb,
    key text default null,               -- what it is about: events of one key keep their order, on ordered routes
    version int default 1,               -- of the schema of its data
    headers jsonb default null,          -- text by name: extension attributes of CloudEvents
    tenant text default null,
    id uuid default null,                -- publish it once, however often this is called
    source text default null             -- who publishes it; null: as the settings say, or the name of this database
) returns uuid
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
    as $$
#variable_conflict use_variable
declare
    made record;
begin
    if type is null or type !~ '^[A-Za-z0-9][A-Za-z0-9_./:-]{0,127}$' then
        raise exception 'type: expected 1 to 128 letters, digits and the signs . _ - / :, got %', coalesce(type, 'null')
            using errcode = 'HF001';
    elsif data is null then
        raise exception 'data: expected JSON, got null' using errcode = 'HF001';
    elsif octet_length(data::text) > (holdfast.setting('payload_bytes'))::int then
        raise exception 'data: % bytes, the limit is %', octet_length(data::text), holdfast.setting('payload_bytes')
            using errcode = 'HF001', hint = 'Store the data elsewhere and publish a reference to it.';
    elsif octet_length(key) not between 1 and 512 then
        raise exception 'key: expected 1 to 512 bytes, got %', octet_length(key) using errcode = 'HF001';
    elsif octet_length(tenant) not between 1 and 256 then
        raise exception 'tenant: expected 1 to 256 bytes, got %', octet_length(tenant) using errcode = 'HF001';
    elsif concat(key, tenant, source) ~ '[\u0001-\u001f\u007f-\u009f]' then
        raise exception '%: contains a control character',
                        case when key ~ '[\u0001-\u001f\u007f-\u009f]' then 'key'
                             when tenant ~ '[\u0001-\u001f\u007f-\u009f]' then 'tenant' else 'source' end
            using errcode = 'HF001';
    elsif octet_length(source) not between 1 and 256 then
        raise exception 'source: expected 1 to 256 bytes, got %', octet_length(source) using errcode = 'HF001';
    elsif version is null or version < 1 then
        raise exception 'version: expected at least 1, got %', coalesce(version::text, 'null') using errcode = 'HF001';
    elsif headers is not null and jsonb_typeof(headers) <> 'object' then
        raise exception 'headers: expected a JSON object, got %', jsonb_typeof(headers) using errcode = 'HF001';
    elsif exists (select from jsonb_each(headers) as h
                  where h.key !~ '^[a-z0-9]{1,20}$' or jsonb_typeof(h.value) <> 'string'
                     or h.value #>> '{}' ~ '[\u0001-\u001f\u007f-\u009f]'
                     or h.key in ('specversion', 'id', 'source', 'type', 'time', 'subject', 'datacontenttype', 'dataschema', 'data',
                                  'partitionkey', 'schemaversion', 'tenant')) then
        raise exception 'headers: expected text by names of 1 to 20 lower-case letters and digits, none of them an attribute that '
                        'every event has, got %', left(headers::text, 200)
            using errcode = 'HF001';
    end if;
    select p.* into made
    from holdfast.publish_events(
        array[coalesce(id, holdfast.uuidv7())], array[type], array[version], array[key], array[tenant], array[headers],
        array[data], source, id is not null, false, null) p;
    if made.conflict is not null then
        raise exception 'id: % is an event that has %', id, made.conflict
            using errcode = 'HF002', hint = 'Use a new id for a new event.';
    end if;
    return made.event_id;
end
$$;
