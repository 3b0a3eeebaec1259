"""The duties of a node, one by one."""
