"""Kernels that nobody may refuse, in the forms that people write: see catalogue.py and ../test_honest.py."""
