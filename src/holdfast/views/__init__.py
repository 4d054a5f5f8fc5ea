"""Read-only queries for the command line and the application: which jobs exist, what holds them, what happens next.

Nothing here locks or writes. Live jobs are read from the inbox, ended jobs by id from the archive. No query counts
all ended jobs: lately.sql reads the newest pages of the archive.
"""
