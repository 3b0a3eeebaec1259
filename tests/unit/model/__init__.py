"""The rules about jobs and runs."""
