"""Metrics for Prometheus: this controller's past work, and its present responsibilities."""
