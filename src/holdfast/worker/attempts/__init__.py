"""Run attempts: from a claimed row to its written ending.

hands          a fixed number, each takes the next claimed row
runner         runs one attempt
ways           to run it: on the loop, in a thread, in a transaction, in a separate process
contexts       context variables of its own, step by step; notices a step that blocks the loop
running        an attempt in progress: how to stop it
transactions   in which handlers write; their sessions have names, so that others can end them
desk           answers the questions of handlers
deciding       what happens to the job: the only place that decides
completer      writes the endings, in batches
"""
