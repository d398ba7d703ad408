"""Packages for laptops and gateways: a signed apt repository, and the package that makes it known to a computer."""
