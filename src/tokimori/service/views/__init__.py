"""The one JSON shape of everything that a door prints. Moments are RFC 3339 texts in UTC, states are words. Pure."""
