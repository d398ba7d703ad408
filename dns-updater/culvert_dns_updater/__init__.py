"""Keeps the DNS zone equal to Culvert's resource profiles."""
