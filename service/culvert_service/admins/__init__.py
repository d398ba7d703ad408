"""Administrators and their permissions: accounts, sessions, API tokens."""
