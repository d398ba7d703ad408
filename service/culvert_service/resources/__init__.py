"""Resources: names that can be opened, with their targets, gateways and people."""
