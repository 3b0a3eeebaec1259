"""Search for jobs and runs by filters."""
