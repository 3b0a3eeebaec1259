"""Requests to services: the node sends them, and makes outcomes of the answers."""
