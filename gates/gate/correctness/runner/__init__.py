"""The correctness gate's side of a runner process: it knows the reference and never loads a kernel."""
