-- How many steps of tasks are recorded.
select count(*) from absurd.c_default where status = 'committed'
