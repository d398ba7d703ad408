"""The controller's two certificate authorities, and the key that encrypts secrets in the database."""
