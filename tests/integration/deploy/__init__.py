"""What `deploy/` has, tried for real."""
