"""Channels: messages of programs to programs."""
