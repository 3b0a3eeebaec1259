"""Settings of gunicorn: each of its workers runs functions as well, and ends them before it goes.

A client of the store, or threads, that `--preload` made before the fork are no worker's: each makes its own.
"""

from jobs import app

graceful_timeout = 75
"""Seconds: longer than `node.stop_grace` (30), or gunicorn kills a worker whose functions still have time."""


def post_worker_init(worker):
    """Begin to run functions."""
    worker.jobs = app.running(concurrency=4)
    worker.jobs.start()


def worker_exit(_server, worker):
    """Let what runs end."""
    worker.jobs.stop()
