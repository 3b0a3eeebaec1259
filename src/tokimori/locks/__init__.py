"""Semaphores and mutexes for programs: a session that holds and waits for permits as a node that runs no jobs."""
