"""The gRPC API for devices."""
