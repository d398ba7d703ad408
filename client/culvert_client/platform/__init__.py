"""What the client asks of the operating system; a folder for each system that has it."""
