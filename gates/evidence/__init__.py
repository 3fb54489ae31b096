"""Run directories: written whole, read without trust, judged again from what they hold."""
