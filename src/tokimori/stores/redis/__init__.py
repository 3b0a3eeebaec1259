"""The Redis store: many nodes on one Redis or Valkey server."""
