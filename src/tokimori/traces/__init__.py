"""Traces: what OpenTelemetry is told, where it is there, and where a program stands in one."""
