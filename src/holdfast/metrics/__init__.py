"""Numbers on their way out: into the minutes of the database, and to Prometheus.

    minutes      add what a supervisor has counted to `holdfast.minutes`
    text         Prometheus' text format, written by hand: it is a few lines, and must be quick
    families     what is exported, under which names; pure functions from numbers to text
    endpoint     a small HTTP server for `/metrics`, `/healthz` and `/readyz`

Series have no ids, keys, or names of workers: their number is bounded by queues, kinds and states.
"""
