-- Has the handler snoozed a job of this kind as often as it may?
create or replace function holdfast.snoozed_out(kind text, snoozes int) returns boolean
    language sql stable
    return coalesce(snoozes, 0) >= coalesce(
        (select k.max_snoozes from holdfast.kinds k where k.kind = snoozed_out.kind),
        holdfast.setting('max_snoozes')::int);
