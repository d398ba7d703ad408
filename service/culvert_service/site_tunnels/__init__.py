"""Tunnels between two gateways, for the networks behind them."""
