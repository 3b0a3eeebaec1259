"""Whole clusters in one thread and in virtual time: seeded, full of faults, and checked afterwards."""
