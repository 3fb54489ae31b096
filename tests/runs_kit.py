"""Sign a run directory anew after its files were changed: `python tests/runs_kit.py RUN`."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

RUN = Path(__file__).parent / "data" / "runs" / "h100_stage2"


def sign(run: Path) -> None:
    """Write manifest.json with the digests of the files that are there."""
    manifest = run / "manifest.json"
    files = {
        path.relative_to(run).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(run.rglob("*")) if path.is_file() and path != manifest
    }
    manifest.write_text(json.dumps({"schema_version": 1, "sha256": files}, indent=1) + "\n")


if __name__ == "__main__":
    sign(Path(sys.argv[1]))
