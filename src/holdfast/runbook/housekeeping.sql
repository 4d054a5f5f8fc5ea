-- Is housekeeping running?
-- A sweep that is much older than its interval: no worker is alive, or none can reach the server.
select name, now() - ran_at as ago, result ->> 'rows' as rows, result ->> 'more' as more, result ->> 'every' as every,
       result ->> 'error' as error
from holdfast.chores
order by ran_at
