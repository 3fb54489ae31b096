"""The gates: pure functions of stored evidence and limits. May import parse's records, nothing that runs."""
