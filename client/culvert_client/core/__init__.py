"""The decisions of the client, without sockets, files or clock: events and `now` in, commands and the next deadline out."""
