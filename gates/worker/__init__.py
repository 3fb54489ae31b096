"""Processes that run untrusted code: jobs, the fork server, the sandbox, the wire between two processes."""
