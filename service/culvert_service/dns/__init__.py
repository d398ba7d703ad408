"""Which zones are published to, and how what dns-updater publishes there fares."""
