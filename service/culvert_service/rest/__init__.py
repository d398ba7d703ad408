"""The REST API's frame: application, errors, the admin's token."""
