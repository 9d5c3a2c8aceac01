"""Long work: stores that can be taken up again, and progress."""
