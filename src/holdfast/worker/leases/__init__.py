"""Keeping leases: outside of the handlers' process, or at least outside of their event loop.

ledger   what a worker holds, in memory that the keeper reads without the worker's help
keeper   renews exactly that, says that the worker is there, and keeps house
"""
