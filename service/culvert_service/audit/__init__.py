"""The audit log: told by whoever decides or changes something, in the transaction of what it tells."""
