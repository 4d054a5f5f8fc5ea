-- Send a signal to an instance: see holdfast.signal.
-- Takes    text only, so that every driver can send it: $1 instance, $2 name, $3 payload as JSON, $4 signal id, $5 who sends it,
--          if somebody is named.
-- Returns  woken, kept, known, ended or unknown.
select holdfast.signal($1::text, $2::text, $3::text::jsonb, $4::text, $5::text) as became
