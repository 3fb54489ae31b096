"""The performance gate's side of a runner process: the session, the clock, and the process that holds the kernels."""
