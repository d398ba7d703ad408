"""The state machine of one tunnel."""
