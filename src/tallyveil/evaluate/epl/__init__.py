"""Empirical privacy loss."""
