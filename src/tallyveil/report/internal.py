"""What is written on everything that was made from the true counts."""

INTERNAL = "Internal: made from the true counts, for those who may see them. Not for publication."
INTERNAL_CELL = "from true counts, not for publication"  # in the column internal of a table
