"""One launch of a kernel: entry point, buffers, memory, replay. Judges nothing."""
