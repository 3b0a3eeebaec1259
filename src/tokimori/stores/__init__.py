"""Stores: one file or folder for each database."""
