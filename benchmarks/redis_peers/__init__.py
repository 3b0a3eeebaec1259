"""Other schedulers and queues on Redis, each as a program of its own; benchmarks/peer_worker.py has its verbs."""
