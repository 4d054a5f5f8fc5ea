"""The read-only questions of command line, metrics and dashboard: what is there, who holds it, what happens next.

Nothing here locks or writes. Live work is read from the inbox, ended work by id from the archive; nothing counts over
history.
"""
