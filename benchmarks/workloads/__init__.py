"""One file for each workload."""
