"""What a node counts of its work, as Prometheus reads it."""
