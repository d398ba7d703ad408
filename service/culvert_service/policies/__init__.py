"""Groups of people, policies, and the access tracer."""
