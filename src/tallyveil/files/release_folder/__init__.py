"""A release as a folder: written, read and checked."""
