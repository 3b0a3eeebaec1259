"""Time arithmetic: pure values that answer "the next moment after t"."""
