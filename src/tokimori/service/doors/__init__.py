"""The service as a door uses it: roles, scopes, the audit log, and calls by name."""
