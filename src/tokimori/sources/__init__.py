"""The databases of other schedulers, of which jobs are read. They are never written."""
