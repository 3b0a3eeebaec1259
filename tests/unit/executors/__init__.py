"""The executors, as far as nothing has to run."""
