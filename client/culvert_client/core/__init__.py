"""The decisions. No socket, file or clock in here: events and `now` in, commands and the next deadline out."""
