"""What is wrong with a store and with what works on it: the same answer at all doors (docs/operations.md)."""
