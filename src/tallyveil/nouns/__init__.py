"""The nouns: plain, frozen data without algorithms."""
