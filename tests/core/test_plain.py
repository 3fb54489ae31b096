"""Nothing that a kernel or evidence says steers a terminal, turns the direction of writing, or builds a page."""

from __future__ import annotations

import json

import pytest
from pages_kit import NAMES, check_markdown

from gates.cli import output
from gates.cli.guard import guard
from gates.core.errors import GatesError
from gates.core.text import plain, plain_json, plain_lines
from gates.render.markdown import code, details, escape, read, table

ODD = "a\x1b[2Jb\u202ec\u2066\x9b\x7f\udc80"
SPELT = r"a\x1b[2Jb\x202ec\x2066\x9b\x7f\xdc80"


def test_plain_spells_out_what_is_not_printable() -> None:
    assert plain(ODD) == SPELT and plain("µs → „x“\n\r\t y") == "µs → „x“    y"
    assert plain_lines(f"one\t{ODD}\r\ntwo\n") == f"one\t{SPELT} \ntwo\n"


def test_json_keeps_its_data() -> None:
    data = {"reason": ODD, "π": ["é\n\t", "\U000e0001"]}
    text = plain_json(json.dumps(data, ensure_ascii=False, indent=1))
    assert json.loads(text) == data and all(line.isprintable() for line in text.split("\n"))


def test_what_commands_print_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> None:
        output.print_text(f"merge: {ODD}")
        output.print_json({"reason": ODD})
        raise GatesError(f"can't import kernel.py: {ODD}", hint=ODD)

    assert guard(refuse) == 2
    shown = capsys.readouterr()
    assert all(line.isprintable() for line in [*shown.out.split("\n"), *shown.err.split("\n")])
    assert shown.out.startswith(f"merge: {SPELT}\n") and f"hint: {SPELT}\n" in shown.err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# merge", "\\# merge"),
        ("one\n# two", "one # two"),
        ("</details><h1>", "&lt;/details&gt;&lt;h1&gt;"),
        ("\x1b\u202e", r"\\x1b\\x202e"),
    ],
)
def test_markdown_of_evidence_builds_nothing(text: str, shown: str) -> None:
    assert escape(text) == shown and details(text, "").count("</details>") == 1


@pytest.mark.parametrize("name", NAMES)
def test_no_name_is_markdown(name: str) -> None:
    cells = table((name, "b"), [(name, 1), ("a", name)])
    page = (
        f"# {escape(name)}\n\n{escape(name)}.\n\n- {escape(name)}\n- **{escape(name)}**: `{code(name)}`\n\n{cells}\n{details(name, cells)}"
    )
    shown = plain(" ".join(name.split()))
    assert check_markdown(page).count(shown) == (11 if "`" in name else 12)
    assert read(escape(name)) == shown


def test_a_terminal_shows_code_as_it_is() -> None:
    assert read("`a\\_b` x\\_y `` \\` &lt;\n```sh\nrun 'a\\$b' &lt;\n```\n") == "`a\\_b` x_y `` ` <\n```sh\nrun 'a\\$b' &lt;\n```\n"


def test_code_ends_where_it_should() -> None:
    assert code("gates run x\n```\n# merge \u202e") == r"gates run x ''' # merge \x202e"
