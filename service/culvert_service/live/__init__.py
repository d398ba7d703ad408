"""What administrators watch as it happens: server-sent events that go on where a lost connection ended."""
