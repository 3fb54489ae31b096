"""Where the project and the tests' own files lie."""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
DATA = TESTS / "data"
TASKS = TESTS / "tasks"
RECORDED = ROOT / "results" / "recorded"
