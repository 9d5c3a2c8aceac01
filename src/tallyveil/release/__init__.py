"""Measurements, releases and their certificates, and plans."""
