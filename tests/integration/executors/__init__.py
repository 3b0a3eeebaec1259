"""Real commands under a real keeper."""
