"""Handlers that run in separate processes (`process=True`).

    pool       starts them, hands out attempts, ends them
    process    one of them, as the worker sees it
    protocol   the messages between worker and process

The program that runs in them is `holdfast.processes.handler_process`.
"""
