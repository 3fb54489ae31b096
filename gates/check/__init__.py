"""What `gates verify` checks of a run beside digests, schemas and the verdict: its files, its report, its profile."""
