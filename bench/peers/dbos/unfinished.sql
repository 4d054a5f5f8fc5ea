-- Whether a job is not completed yet: a workflow of the queue.
select exists (select from dbos.workflow_status where queue_name = 'jobs' and status <> 'SUCCESS')
