"""Other schedulers on MariaDB, each as a program of its own; benchmarks/peer_worker.py has its verbs."""
