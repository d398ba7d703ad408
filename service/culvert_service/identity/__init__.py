"""People, their devices, invitations, enrolment, codes."""
