"""Workflows: instances with no-op steps, beside DBOS and Absurd; a lone step; sleepers; replay; fan-in.

    rates       instances per second with 1 and 5 steps, 20 and 100 in flight: against the bare drain, and the peers
    lone        one step after the other in one instance, against a bare commit
    sleepers    many instances that are due at the same moment
    replay      what a recorded step costs when its instance is woken
    fan_in      a parent that waits for 1,000 children
    app         the workflows, and every call of Holdfast that these need
    questions   what they ask of its tables

The peers' half needs only Python and PyPI; their versions, drivers and settings are in bench/peers.
"""
