"""Tests of `tokimori.service`."""
