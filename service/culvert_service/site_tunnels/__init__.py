"""Site tunnels: always-open tunnels between two gateways, for the networks behind them."""
