"""Numbered SQL, applied in order, never changed once released."""
