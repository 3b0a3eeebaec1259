"""Tests of `tokimori.client`."""
