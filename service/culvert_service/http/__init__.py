"""The application around the endpoints of all parts: its middleware, its pages."""
