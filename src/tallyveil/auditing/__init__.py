"""Audits: mechanisms that can be run many times, neighbouring datasets to run them on, and the audit of both."""
