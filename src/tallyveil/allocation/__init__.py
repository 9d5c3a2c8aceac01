"""Shares chosen for a purpose: least error for what is weighted, or the smallest budget that meets goals."""
