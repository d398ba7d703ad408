"""The public socket of the local API, which learns callers' uids from the kernel."""
