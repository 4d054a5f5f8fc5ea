"""Queues: names that workers choose their jobs by. A row exists only for those that are paused, or have a mode."""
