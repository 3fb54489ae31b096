"""About this machine and this task folder: doctor, lint, selftest, explain."""
