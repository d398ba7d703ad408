"""The controller's three certificate authorities, and the key that encrypts secrets in the database."""
