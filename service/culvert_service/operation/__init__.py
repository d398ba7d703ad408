"""What an operator does beside a running controller: back up, restore."""
