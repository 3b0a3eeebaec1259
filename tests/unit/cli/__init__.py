"""Tests of `tokimori.cli`."""
