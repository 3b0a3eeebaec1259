"""Settings: where they come from, and which are allowed."""
