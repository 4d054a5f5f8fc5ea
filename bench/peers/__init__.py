"""The peers, measured beside us: `python -m bench --peers all`, or `--peers pgboss,graphile`.

    pgboss          pg-boss, Node                  awa             Awa (awa-pg), Python on a Rust core
    graphile        Graphile Worker, Node          oban            Oban for Python
    pgqueuer        PgQueuer, Python               absurd          Absurd, Python
    procrastinate   procrastinate, Python          dbos            DBOS, Python

Each has a folder here: its versions pinned (requirements.txt or package.json), its driver with the settings for
throughput that it documents, and two questions to its tables. A driver is a process in the peer's own environment,
which `environment` makes when it is first needed; `driver` speaks with it. A peer that cannot be installed, or that
fails, is left out with a sentence, and the others go on.

All meet what Holdfast meets: the same server and settings, one worker process, a handler that does nothing, a payload
of about 100 bytes, a fresh database for every repeat. They take turns, so that a noisy machine disturbs all alike; the
`race` is where they do. The time of a drain is from the first call of a handler until the database says that no job is
left, so start-up does not count. After every drain the handler must have been called once for each job, and the peer
must have completed as many. Tables are analysed after they were filled, which is kind to planners.

Paces and bursts are measured of those that wake up quickest, by producers in processes of their own, ours as theirs.
In a fleet for bursts every worker takes one job at a time; those of PgQueuer and pg-boss take two, for the reasons that
their drivers give, so they have half as many.

What they promise differs: a batch of pg-boss fails as one; Graphile Worker keeps no finished job; Absurd and DBOS
record a durable workflow for each. Slow peers get fewer jobs, so that a repeat takes seconds.
"""

from .peer import PEERS

NAMES: tuple[str, ...] = tuple(PEERS)
