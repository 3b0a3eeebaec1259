"""The keeper: a small process of its own, standard library only, that spawns, waits for and ends what a node runs."""
