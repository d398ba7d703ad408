"""What a device is told as it happens."""
