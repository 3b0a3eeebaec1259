"""The door for people and scripts."""
