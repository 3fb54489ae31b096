"""The sanitizer gate: memory and synchronisation as the language allows."""
