"""One turn of one case in a process of its own: `python -m bench.turn CASE SIZE`, which prints one line of JSON.

    compare      runs it with this tree's source and with another commit's, in turns
    pickup       runs it for paces and bursts, so that our producer has a process of its own, as the peers' have
    peers.race   the same, in turns with them

It must run with the source of any commit. So it keeps to the public API, the command line and the documented SQL, and
imports nothing else of the benchmarks that does not. `source` refuses another holdfast than the one that was meant,
here and in the workers. The database comes by HOLDFAST_DATABASE_URL, migrated by the turn `migrate` of the same source.
"""
