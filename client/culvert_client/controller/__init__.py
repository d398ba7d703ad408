"""The client of the controller: enrolment over HTTPS, then the agent API over mutual TLS."""
