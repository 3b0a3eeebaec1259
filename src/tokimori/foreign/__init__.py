"""HTTP APIs of other systems, spoken by this one: one module each, which the wiring mounts beside our own."""
