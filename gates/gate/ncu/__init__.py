"""The ncu gate: hardware counters that show what the stage claims."""
