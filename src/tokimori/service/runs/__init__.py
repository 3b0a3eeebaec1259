"""Runs: they are read, cancelled, repeated and approved, alone and as families."""
