"""The programs behind `holdfast worker`: processes that start, watch and kill each other.

supervisor        the command itself: starts and watches worker processes
worker_process    one worker
start             what the two agree on
isolation         when the supervisor starts worker processes for suspects only
handler_process   runs handlers that need a separate process
"""
