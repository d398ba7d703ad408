"""What this controller is: its version, its CAs and certificates, and the settings that everybody meets."""
