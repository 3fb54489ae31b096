"""Read a task's sources as text, without a compiler: files, includes, flags, streams."""
