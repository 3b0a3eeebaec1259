"""The program as its users start it, and a quicker way to start it often."""
