"""DNS watch (DESIGN D12): for computers whose name service must not be touched."""
