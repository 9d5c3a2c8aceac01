"""Budgets that keep a risk acceptable."""
