"""Arguments in, text out. Decides nothing."""
