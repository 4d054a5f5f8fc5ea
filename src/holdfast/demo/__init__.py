"""`holdfast demo`: a small shop that is being shot at, and a recount of what became of its work.

    conductor (this process) ── starts, kills, watches, draws
      ├── producer      commits orders with their jobs, rolls some back, repeats some under the same keys
      ├── worker 1 ┐    `holdfast worker holdfast.demo.shop:hf`, each a supervisor and its process; every few
      ├── worker 2 │    seconds one of them, both processes, gets SIGKILL in the middle of a job and is started
      ├── worker 3 ┘    again
      └── recount       afterwards: a script of its own that shares no code with the library

Three witnesses that the library does not write: the producer's log (what was meant, what was committed), the kill log
(what a worker held when it was killed), and the effects: a table for those made through `ctx.tx`, an append-only file
for those outside the database. The recount holds the database against them.

Everything runs on a server of its own that vanishes with the demo, or, with HOLDFAST_DATABASE_URL, in a schema of its
own that is dropped at the end. However it ends, by itself, by an error or by Ctrl-C, no process and no folder stay.
"""
