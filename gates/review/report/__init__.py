"""Runs as one HTML page."""
