"""Functions of apps: the engine's side, which hands runs to worker processes and makes outcomes of their reports."""
