"""This controller: its version, its CAs and certificates, and the settings that concern everybody."""
