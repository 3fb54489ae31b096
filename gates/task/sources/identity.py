"""Name a build by what decides it: the stage's files, and how they are compiled."""

from __future__ import annotations

import posixpath


def identity_of(stage: str, digest: str) -> str:
    """Return the identity ``<stage>-<build>``: 32 hex digits each of the stage's digest and of the build's (flags, compilers,
    environment).
    """
    return f"{stage[:32]}-{digest[:32]}"


def product_name(path: str) -> str:
    """Return the name of a product, from its path relative to the build folder: that path, or of a Python source its own name."""
    return posixpath.basename(path) if path.startswith("..") else path
