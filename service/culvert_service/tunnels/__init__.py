"""Tunnels: their life cycle, their numbers, and their set-up on a gateway."""
