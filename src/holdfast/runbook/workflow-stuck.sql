-- Workflow instances that wait for somebody
-- Dead letter: fix the cause, then holdfast workflow resume INSTANCE. Needs attention: deploy code that fits its
-- history.
select instance, workflow, state, now() - since as for_, waits, dead_children, last_error
from holdfast.workflows
where state in ('paused', 'dead letter', 'needs attention') or cardinality(dead_children) > 0
order by since
limit 50
