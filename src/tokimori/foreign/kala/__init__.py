"""Kala's HTTP API, version 1, as programs written for Kala use it: docs/coming-from/kala.md compares it with ours.

Only these modules know Kala's forms: `shapes` its JSON and schedules, `translator` its commands and jobs, `stored_jobs`
its stored jobs. `answers` makes its JSON from jobs of ours, and `routes` answers requests.
"""
