"""The programs behind `holdfast worker`: processes that start, watch and end each other.

supervisor        the command itself: keeps and watches worker processes
worker_process    one worker
isolation         when the supervisor starts worker processes for suspects only
handler_process   where a worker runs the handlers that asked for a process
"""
