"""Searches as text, data and pages: sweeps over toggles, and searches over candidates."""
