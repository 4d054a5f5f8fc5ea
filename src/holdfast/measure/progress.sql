-- Is anything left, if asked for, and how many claims there were, which costs nothing however many rows there are.
-- Takes    $1 look what is left?
select $1::boolean and exists (select from holdfast.inbox) as left,
       (select case when f.is_called then f.last_value else 0 end from holdfast.fence f) as claims
