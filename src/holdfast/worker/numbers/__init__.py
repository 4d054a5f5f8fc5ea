"""What attempts did, by queue and kind: counted in the worker process, read by its keeper.

    counting   hears what happens, and keeps counts and samples; several times a second it writes them to the board
    board      memory that worker and keeper share, beside the ledger: what a process has counted outlives it
    books      the keeper's side: adds up the boards of all processes, also of those that have ended, and adds what is
               new to the minutes in the database
    exporting  the pages of `holdfast worker --metrics`

A job costs a few appends to lists. The samples are sorted and cut into buckets when they are written.
"""
