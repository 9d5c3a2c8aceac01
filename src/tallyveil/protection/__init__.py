"""The whole way: from counts to a release and its folder, and a folder checked again."""
