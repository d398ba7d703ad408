"""The REST conventions of every part: pages, versions, refusals, limits."""
