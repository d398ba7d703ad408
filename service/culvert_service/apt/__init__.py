"""The client's packages for laptops: a signed apt repository, and the package that makes it known to a laptop."""
