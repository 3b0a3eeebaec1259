"""Events: what becomes of runs, told to whoever listens."""
