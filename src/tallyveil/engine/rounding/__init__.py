"""Whole numbers from estimates: stages, largest fractions, flows and integer programs."""
