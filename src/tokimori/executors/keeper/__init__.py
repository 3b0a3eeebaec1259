"""The keeper: a small process of its own, standard library only, that spawns, watches and ends a node's processes."""
