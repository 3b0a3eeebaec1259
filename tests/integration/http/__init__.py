"""Tests of the HTTP door over real sockets."""
