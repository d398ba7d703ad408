"""P4 gateways: their desired entries, their observed entries, and the difference."""
