"""What an intruder learns about one target from counts of one unit."""
