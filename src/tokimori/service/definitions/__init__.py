"""Definitions of jobs and requests as texts and values: checks and conversions. Pure."""
