-- How many steps are recorded.
select sum(steps) from toy
