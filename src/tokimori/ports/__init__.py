"""Interfaces to stores, executors and other outside systems."""
