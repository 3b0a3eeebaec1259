"""Other schedulers and queues on PostgreSQL, each as a program of its own: `fill URL RUNS`, then `drain URL RUNS`."""
