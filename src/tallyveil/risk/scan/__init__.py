"""Everybody a target in turn."""
