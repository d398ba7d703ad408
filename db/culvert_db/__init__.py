"""Culvert's tables and migrations."""
