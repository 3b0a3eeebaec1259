"""Tests of `tokimori.web`."""
