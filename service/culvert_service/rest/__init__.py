"""What every part says in REST: pages, versions, refusals, limits."""
