"""The gRPC API that devices speak."""
