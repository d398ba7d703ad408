"""The Culvert controller: identity, policy, tunnels, gateways."""
