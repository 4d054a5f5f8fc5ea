-- How many steps of workflows are recorded.
select count(*) from dbos.operation_outputs
