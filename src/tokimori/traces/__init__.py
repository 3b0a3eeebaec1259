"""Traces: reports to OpenTelemetry, if it is installed, and the place of a program in one."""
