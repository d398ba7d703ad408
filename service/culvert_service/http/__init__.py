"""What stands around the endpoints of all parts: one application, its middleware, its pages."""
