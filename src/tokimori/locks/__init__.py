"""Semaphores and mutexes for programs."""
