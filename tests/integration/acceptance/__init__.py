"""What the users of other schedulers had, on a real node."""
