"""Running attempts: from a claimed row to the ending that is written about it.

hands          a fixed number, each takes the next claimed row
runner         runs one attempt
ways           to run it: on the loop, in a thread, in a transaction, in a process of its own
running        an attempt under way: how to stop it
transactions   in which handlers write, under names that others can end
desk           answers what handlers ask meanwhile
deciding       what happened means for the job: the one place that says so
completer      writes the endings, in batches
"""
