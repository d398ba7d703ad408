"""What dns-updater has published, for reading."""
