"""Throwaway servers for tests and benchmarks."""
