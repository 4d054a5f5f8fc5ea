"""The benchmarks: `make bench`, or `python -m bench [NAMES] [--full] [--json FILE]`.

    claim_backlog   the time of one claim, as the backlog grows and as rows that cannot run stand in front
    pinned          a drain by quarters while somebody's open transaction pins the xmin horizon
    drain           `holdfast worker -c 20` on a full queue: rate, memory, CPU and WAL per job
    enqueue         one job per commit against a bare INSERT, many per statement, COPY
    pickup          from the call of enqueue to the start of the handler, on an idle worker
    ring            how even the shares of owned buckets are, and what moves when a worker joins
    wake            what the test "does somebody sleep?" costs producers, and what notifying at every commit would

One server for all, embedded unless HOLDFAST_DATABASE_URL names another, with durable commits; a fresh copy of a
template database for every repeat. What is compared is measured in turns, so that a noisy machine disturbs both sides.
After every drain the archive is counted: each job once, on its first attempt, and nothing left.
"""
