"""Events for devices, over their Watch streams."""
