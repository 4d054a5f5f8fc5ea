-- Whether any job is left, if asked, and the number of claims, whose cost does not depend on the number of rows.
-- Takes    $1 whether to check what is left.
select $1::boolean and exists (select from holdfast.inbox) as left,
       (select case when f.is_called then f.last_value else 0 end from holdfast.fence f) as claims
