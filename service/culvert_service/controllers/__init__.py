"""Several controllers on one Postgres: how they hear of each other."""
