"""May this device open this name, and through which gateways?"""
