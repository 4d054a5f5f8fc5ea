"""`holdfast demo`: a small shop whose workers are killed while they run jobs, and a recount of what happened.

    conductor (this process) ── starts, kills, watches, draws; serves the dashboard, whose buttons do the same
      ├── producer      commits orders with their jobs, rolls some back, sends some twice under the same keys
      ├── worker 1 ┐    `holdfast worker holdfast.demo.shop:hf`, each a supervisor and its worker process; every few
      ├── worker 2 │    seconds one of them gets SIGKILL in the middle of a job, both processes at once, and is
      ├── worker 3 ┘    restarted
      └── recount       afterwards: a separate script that shares no code with the library

In front of somebody, all but the recount then goes on, with fewer orders, until Ctrl-C.

The recount compares the database with three records that the library does not write: the producer's log (what was
intended, what was committed), the kill log (what a worker held when it was killed), and the effects: a table for those
made through `ctx.tx`, an append-only file for those outside the database.

Everything runs on an embedded server that is removed with the demo, or, with HOLDFAST_DATABASE_URL, in a separate
schema that is dropped at the end. No process and no folder remains, whether the demo finishes, fails or is
interrupted.
"""
