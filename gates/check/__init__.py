"""Checks of `gates verify` besides digests, schemas and the verdict: files, report, profile, attestation."""
