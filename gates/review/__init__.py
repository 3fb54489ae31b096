"""Read finished runs and say something about them: compare, ladder, decide, history, attest."""
