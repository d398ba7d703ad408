"""An operator's commands beside a running controller: back up, restore."""
