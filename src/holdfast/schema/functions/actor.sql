-- Who acts in this session: the setting holdfast.actor, if there is one ("set holdfast.actor = 'ann'"; with "set local", for this
-- transaction), otherwise the login. The setting has this name whatever the schema's name is.
create or replace function holdfast.actor() returns text
    language sql stable parallel safe
    return coalesce(nullif(current_setting('holdfast' || '.actor', true), ''), session_user::text);
