"""Tests of `tokimori.config`."""
