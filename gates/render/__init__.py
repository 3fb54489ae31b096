"""Text for people: tables, COMPARE.md. May import parse and judge, nothing that runs."""
