"""TopDown: from measurements to a consistent, whole-number release (DESIGN)."""
