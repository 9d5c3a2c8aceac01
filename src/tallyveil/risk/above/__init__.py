"""What the counts above and beside a unit add."""
