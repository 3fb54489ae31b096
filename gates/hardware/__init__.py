"""Published tables about chips and counters, each with its source."""
