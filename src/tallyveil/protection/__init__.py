"""The complete pipeline: from counts to a release and its folder, and the verification of a folder."""
