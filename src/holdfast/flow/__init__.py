"""The code of a workflow, run from its history: replay, steps, waits, undo. No database here.

flow        what the code calls: step, sleep, wait, child, map, gather, patched, now
calls       the names and options that these take
functions   what is read from a function that is a step
steps       runs a step, and decides what its failure means
history     finds what is recorded, and notices code that no longer matches it
branches    code that runs side by side, and when none of it can move
machine     one run of an instance: what is queued, and why it stands still
driving     runs the code until it ends, or until nothing can move; undoes
"""
