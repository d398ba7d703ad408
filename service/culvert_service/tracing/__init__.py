"""Traces (OpenTelemetry): what an operation took its time for. Off unless a collector is named."""
