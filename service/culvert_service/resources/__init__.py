"""Names that can be opened, where they are, and for whom."""
