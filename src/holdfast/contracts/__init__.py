"""Contracts of events: which types and versions an application publishes and consumes, and whether a change breaks one.

types.py       the types that the application declares; data is checked and encoded when an event is published
schemas.py     JSON Schema: its keywords, schemas that users write, and checking data against them
asyncapi.py    the export: one AsyncAPI document with a schema for each type and version
changes.py     what has changed between two exports, and which changes break consumers or producers
inclusion.py   does every value of one schema fit another? If not: where

The proof in inclusion.py stands on:

cases.py       the alternatives that a schema has, their types and values, and what they say about parts
scalars.py     the rules for keywords about scalars and sizes
assertions.py  which keywords say something about values, and whether two schemas say the same
values.py      JSON values: their types, and which are equal
"""
