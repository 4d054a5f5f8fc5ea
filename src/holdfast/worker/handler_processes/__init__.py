"""Handlers that run in processes of their own (`process=True`).

    pool       starts them, hands out attempts, ends them
    process    one of them, as the worker sees it
    protocol   what the two say to each other

The program that runs in them is `holdfast.processes.handler_process`.
"""
