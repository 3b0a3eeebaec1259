"""Tests of what the package offers to tests."""
