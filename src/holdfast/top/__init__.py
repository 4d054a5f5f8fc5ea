"""`holdfast top`: the installation in a terminal, each second.

    looking ──▶ State (numbers, workers, what runs, errors) ──▶ frame: lines of text ──▶ screen: a terminal

`looking` asks for the stored numbers, and never counts; `frame` is pure, so `--once` and the tests print the same lines
that the terminal shows; `screen` has the terminal, the keys and the clock. No package is needed for it.
"""
