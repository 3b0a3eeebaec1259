"""Kala's HTTP API, version 1, as programs written for Kala use it: docs/coming-from/kala.md compares it with ours.

What Kala writes stops here: `shapes` are its JSON, `notation` its schedules, `words` its commands, `translator` makes
jobs of ours from what it is told and its JSON from jobs of ours, and `routes` answers requests.
"""
