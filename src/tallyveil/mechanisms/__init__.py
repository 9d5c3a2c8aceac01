"""Where truth meets noise, and nowhere else (DESIGN, rule 1)."""
