"""Jobs: they are added, read, triggered, edited and deleted."""
