"""Tests of `tokimori.api`."""
