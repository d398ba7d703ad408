"""Live views for administrators: server-sent events that resume after a lost connection."""
