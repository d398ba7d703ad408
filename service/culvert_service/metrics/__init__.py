"""What Prometheus scrapes: what this controller has done, and what it is responsible for now."""
