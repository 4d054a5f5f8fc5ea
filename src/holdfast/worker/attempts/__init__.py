"""Run attempts: from a claimed row to its written ending.

hands          a fixed number, each takes the next claimed row
permits        how many attempts may run at a time; one that only waits for the database lends its permit
runner         runs one attempt
ways           to run it: on the loop, in a thread, in a transaction, in a separate process
contexts       context variables of its own, step by step; notices a step that blocks the loop
running        an attempt in progress: how to stop it
transactions   in which handlers write; their sessions have names, so that others can end them
desk           answers the questions of handlers
progress       stores what handlers say about their progress
traced         runs attempts inside the spans of a traced application
deciding       which outcome an attempt has; of a failed one, the database decides between retry and dead letter
completer      collects the endings, and writes them in batches
writing        one statement per kind of ending
"""
