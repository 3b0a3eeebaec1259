"""Formats of other schedulers, each with its sources, its request over HTTP, and its options in a terminal."""
