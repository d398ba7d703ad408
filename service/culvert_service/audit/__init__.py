"""The audit log. A line is written in the transaction of the change or decision that it records."""
