"""Queues: the names by which workers choose jobs. Only queues that are or were paused, or have a mode, have a row."""
