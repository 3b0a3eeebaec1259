"""Tests of single modules: no I/O, no waiting; the folders mirror src."""
