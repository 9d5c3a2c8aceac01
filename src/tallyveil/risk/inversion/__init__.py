"""When post-processing can be undone: what a release tells about the measurements it was made from."""
