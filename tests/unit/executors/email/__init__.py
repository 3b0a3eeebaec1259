"""Tests of `tokimori.executors.email`."""
