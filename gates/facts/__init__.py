"""Tables of published facts about chips and counters, each with its source. Imports nothing of ours."""
