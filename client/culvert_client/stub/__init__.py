"""The DNS stub: a listener for this computer's programs and a client of the name server behind it."""
