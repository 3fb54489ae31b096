"""Tables in a terminal: fitted to its width, nothing lost; Markdown stays as it is where there is no terminal."""

from __future__ import annotations

import pytest
from runs_kit import RECORDED

from gates.render.history import history_table
from gates.render.markdown import columns, read, table
from gates.review.history import history

ROWS = [("ptxas", "pass", "2 compiled kernels within budget on sm_89, sm_90"), ("a|b", "n/a", r"_x_ `y` \ <b> @me"), ("", "-", "")]
HEADERS = ("gate", "status", "result")


def words(lines: list[str]) -> list[str]:
    return sorted(word for line in lines for word in line.split())


@pytest.mark.parametrize("width", [200, 60, 40])
def test_a_table_is_fitted_and_keeps_every_word(width: int) -> None:
    lines = columns(HEADERS, ROWS, width=width)
    assert max(map(len, lines)) <= width and words(lines) == words(columns(HEADERS, ROWS))
    assert (len(lines) > 4) == (width < 63)


def test_without_a_terminal_a_row_is_a_line() -> None:
    lines = columns(HEADERS, ROWS, right=(1,), least=(8, 12))
    assert len(lines) == 4 and lines[0] == "gate            status  result"
    assert lines[1].startswith("ptxas             pass  2 compiled")


def test_a_table_of_markdown_is_read_as_columns() -> None:
    text = f"# Title\n\nbefore\\_it\n\n{table(HEADERS, ROWS, right=(1,))}\nafter\n"
    fitted = read(text, 200)
    assert fitted.splitlines()[4:8] == columns(HEADERS, ROWS, right=(1,)) and fitted.startswith("# Title\n\nbefore_it\n\ngate ")
    assert fitted.endswith("\n\nafter\n") and "| ptxas | pass |" in read(text) and "| ptxas" not in fitted
    assert max(map(len, read(text, 50).splitlines())) <= 50


def test_a_path_in_a_history_is_never_broken() -> None:
    entries = history(RECORDED / "h200")
    wide, narrow = history_table(entries, 400).splitlines(), history_table(entries, 100).splitlines()
    assert wide == history_table(entries).splitlines() and len(narrow) == 2 * len(wide) - 1
    assert [line.strip() for line in narrow[2::2]] == [entry.path for entry in entries]
