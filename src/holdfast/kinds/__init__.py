"""What the code says about each kind of job, stored for those who act without the code.

A worker declares its tasks when it starts (`declare`): versions, arguments, retry policy. The sweep then retries a job
of a dead host by the policy of its task, even on a host that does not have the task. And two applications that share
a schema notice when they use one name for different tasks, before one runs the other's jobs.

A lower version of a kind never overwrites a higher one, so a rolling deploy in either order leaves the newest.
"""
