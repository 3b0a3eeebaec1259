"""The page of a node, for browsers."""
