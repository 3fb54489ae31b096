"""Make packed runs smaller: compress their files anew with zopfli, some 10 % better than `gates pack`. Their contents stay the same.

pip install zopfli
python scripts/repack.py results/recorded
"""

from __future__ import annotations

import sys
from pathlib import Path

from gates.core import jsonio
from gates.evidence import archive

ROUNDS = 5  # more take longer and give some 0.1 %


def smallest(data: bytes) -> bytes:
    """Return ``data`` as raw deflate, by zopfli or by zlib."""
    from zopfli import zlib as zopfli

    found: bytes = zopfli.compress(data, numiterations=ROUNDS)[2:-4]  # without zlib's header and checksum
    return min(found, archive.deflated(data), key=len)


def repack(path: Path) -> tuple[int, int]:
    """Write a packed run or sweep anew; return its bytes before and after."""
    before = path.read_bytes()
    files = archive.read(before)
    after = archive.write(files, smallest)
    if archive.read(after) != files:
        raise SystemExit(f"error: {path} would hold something else; nothing was written")
    if len(after) < len(before):
        jsonio.write_bytes(path, after)
    return len(before), min(len(before), len(after))


def main(folders: list[str]) -> int:
    if not folders:
        print(f"error: no folder named\n{__doc__}", file=sys.stderr)
        return 2
    for path in sorted(path for folder in folders for path in Path(folder).rglob("*.zip")):
        before, after = repack(path)
        print(f"{path}: {before} -> {after} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
