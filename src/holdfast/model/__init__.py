"""Pure values and rules: what a job is, how it may end, what may be stored. No I/O, no clock of its own.

Everything here can be tested without a database, and everything else may depend on it.
"""
