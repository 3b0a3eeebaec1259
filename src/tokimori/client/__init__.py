"""The client: the door for Python programs."""
