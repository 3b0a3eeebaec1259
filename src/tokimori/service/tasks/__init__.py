"""Tasks: jobs that run builds of code."""
