"""Rules that stores apply, because they need all rows at once. Pure, and the same for every store."""
