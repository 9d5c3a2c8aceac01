"""What is left after post-processing, by simulation."""
