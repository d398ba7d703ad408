"""The controller as this device sees it: enrolment over HTTPS, then the agent API over mutual TLS."""
