"""What to try next: facts of a run, each with its place in the evidence, and rules over them."""
