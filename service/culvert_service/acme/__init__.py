"""The certificate of the public name by ACME (RFC 8555), for browsers: got, shown, renewed."""
