"""Ways to run a target."""
