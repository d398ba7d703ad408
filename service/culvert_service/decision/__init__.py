"""The decision whether a device may open a name, and through which gateways."""
