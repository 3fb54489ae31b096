"""One candidate of a search in, one small record out: cheapest check first, stopped at the first that fails."""
