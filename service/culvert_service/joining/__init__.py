"""Enrolments of gateways: a link, with which a computer joins as a gateway and agrees on its key-encryption key."""
