"""Pure values and rules: what a job is, how it can end, what can be stored. No I/O, and no clock.

Everything here can be tested without a database, and everything else may depend on it.
"""
