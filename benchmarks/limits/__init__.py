"""What the largest stores cost: `python -m benchmarks.limits` makes the table of `docs/reference/limits.md`."""
