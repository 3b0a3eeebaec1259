"""Tests of `tokimori.executors.http`."""
