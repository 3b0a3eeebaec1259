"""Tests of `tokimori.logs`."""
