"""Live views for administrators: server-sent events that go on where a lost connection ended."""
