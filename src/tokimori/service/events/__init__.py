"""Events: ends of runs and changes, for all who listen."""
