"""Apps on real nodes, with real worker processes."""
