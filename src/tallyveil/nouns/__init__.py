"""The nouns: immutable data types for geography, attributes and counts."""
