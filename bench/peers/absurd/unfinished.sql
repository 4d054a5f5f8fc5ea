-- Whether a job is not completed yet: a task of the queue «default».
select exists (select from absurd.t_default where state <> 'completed')
