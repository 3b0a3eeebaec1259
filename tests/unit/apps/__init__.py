"""Tests of `tokimori.apps`."""
