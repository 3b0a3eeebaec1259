"""The door for Python programs."""
