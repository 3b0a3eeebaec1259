"""The questions that the inside asks of the outside."""
