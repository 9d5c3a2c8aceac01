"""TopDown: from measurements to consistent whole-number counts."""
