"""OpenID Connect: who an organisation's own sign-in knows, as administrators and as people who enrol a computer."""
