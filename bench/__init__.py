"""The benchmarks: `make bench`, or `python -m bench [AXES] [--full] [--json FILE]`; `--help` lists the axes.

One server for all, embedded unless HOLDFAST_DATABASE_URL names another, with durable commits; a fresh copy of a
template database for every repeat, filled by the server itself. What is compared is measured in turns, so that a noisy
machine disturbs both sides. After every drain the archive is counted: each job once, on its first attempt, and nothing
left.

    ground, processes, draining, turns    what axes are made of: databases, real workers, a watched drain, repeats
    drain … wake                          one module per axis; `run` adds its figures, each with its target
    relay, workflows                      axes of several modules
    turn, paces                           one turn in a process of its own, with the source of any commit
    compare                               two commits in turns: `--against COMMIT`
    peers                                 others of its kind, in turns with us: `--peers`
    figures, verdicts                     medians, spread, targets; ours against the peers of the same run
    svg, plots, document                  docs/performance.md and docs/plots from the JSON of a run

An axis that fails is reported with the others' figures and counts as missed.
"""
