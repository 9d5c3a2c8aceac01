"""Audits: lower bounds on epsilon from many runs."""
