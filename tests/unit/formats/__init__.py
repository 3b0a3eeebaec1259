"""A whole node, ticked by hand."""
