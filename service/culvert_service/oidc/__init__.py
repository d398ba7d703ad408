"""OpenID Connect: an organisation's own sign-in, for administrators and for people who enrol a computer."""
