"""Metrics for Prometheus: counters of this controller's work, and gauges of its present state."""
