"""Runs builds of tasks: they are fetched, checked, kept in a folder of the node, and given what they depend on."""
