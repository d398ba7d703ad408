"""Who administers, and what each may do: accounts, sessions, API tokens."""
