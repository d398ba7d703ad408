"""The content of each package."""
