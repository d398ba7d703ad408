"""Several controllers on one Postgres: their identities, notifications and calls."""
