"""Make docs/guide/report.png: the page that `gates report` writes of a recorded run, as a headless Chromium shows it.

Example: python scripts/docs/report_picture.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from gates.review.report.write import write_report

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "guide" / "report.png"
RUN, RESULTS = "recorded:h200/stage2", ROOT / "results"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZE = (1080, 1100)  # pixels
COLOURS = 64  # a third of the bytes, and no difference to be seen
LIMIT_S = 120.0


def main(out: Path = PICTURE) -> int:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"error: no browser on PATH: {', '.join(BROWSERS)}\nhint: apt-get install chromium", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(prefix="gates-picture-") as scratch:
        page = write_report(RESULTS, [RUN], Path(scratch) / "page.html")
        picture = Path(scratch) / "page.png"
        options = ["--headless", "--hide-scrollbars", f"--user-data-dir={scratch}/profile", f"--window-size={SIZE[0]},{SIZE[1]}"]
        options += ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium's does not start for root; the page is our own
        done = subprocess.run(
            [browser, *options, f"--screenshot={picture}", page.as_uri()], capture_output=True, text=True, timeout=LIMIT_S
        )
        if not picture.is_file():
            print(f"error: {browser} wrote no picture (exit {done.returncode}): {done.stderr[-1000:]}", file=sys.stderr)
            return 1
        Image.open(picture).convert("RGB").quantize(COLOURS).save(out, optimize=True)
    print(f"written: {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
