"""Tests of `tokimori.executors.functions`."""
