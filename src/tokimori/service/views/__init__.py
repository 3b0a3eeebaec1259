"""The JSON form of everything, the same for all doors. Moments are RFC 3339 texts in UTC, states are words. Pure."""
