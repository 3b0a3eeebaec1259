"""The few rules that live in the stores, because only they see all at once. Pure, and the same for every store."""
