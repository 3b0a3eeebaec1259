"""What the largest stores cost: `python -m benchmarks.limits` makes the table of `docs/limits.md`."""
