"""Traces (OpenTelemetry): the durations of an operation's steps. Off unless the settings name a collector."""
