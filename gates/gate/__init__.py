"""The gates: one row each in the registry, one folder each for what is a gate's own. No gate imports another."""
