"""One process that takes part: its loop, and the wiring that introduces everybody."""
