"""Holdfast: durable work in Postgres, for Python."""
