"""Counters of a node's work, as Prometheus reads them."""
