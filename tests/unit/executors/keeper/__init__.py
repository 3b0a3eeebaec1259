"""The keeper's parts."""
