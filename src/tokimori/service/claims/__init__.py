"""Claims of workers outside of nodes."""
