"""Why something does not start: the same answer at all doors, from one reading of the store (docs/why.md)."""
