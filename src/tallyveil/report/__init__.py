"""Pages that a person can read."""
