"""The duties of a node, each a plain function of the store, the clock and what it is given."""
