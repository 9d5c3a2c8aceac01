"""Formats with a name: IPUMS, microdata detail files."""
