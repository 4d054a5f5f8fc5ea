"""Running attempts: from a claimed row to the ending that is written about it.

hands          a fixed number, each takes the next claimed row
runner         calls the handler: on the loop, in a thread, in a transaction, in a process of its own
transactions   in which handlers write, under names that others can end
deciding       what happened means for the job: the one place that says so
completer      writes the endings, in batches
"""
