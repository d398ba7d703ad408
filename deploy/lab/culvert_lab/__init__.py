"""Culvert's demo network: namespaces, servers, captures, and the click."""
