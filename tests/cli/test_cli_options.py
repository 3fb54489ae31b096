"""Options of the command line that are wrong by themselves: each error names its option and what to write instead."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from gates.cli.main import cli
from gates.core.errors import GatesError


@pytest.mark.parametrize(("option", "example"), [("--shapes", "small,mission"), ("--seeds", "0,1,2"), ("--inputs", "default,zeros")])
@pytest.mark.parametrize(
    ("value", "what"),
    [("", "is an empty list"), (" , ", "is an empty list"), ("1,1", "names something twice"), ("a\x1b", "is not plain text")],
)
def test_a_wrong_list_names_its_own_option(option: str, example: str, value: str, what: str) -> None:
    with pytest.raises(GatesError) as caught:
        CliRunner().invoke(cli, ["run", "stage2", option, value], catch_exceptions=False)
    assert caught.value.what == f"{option}: {value!r} {what}" and caught.value.exit_code == 2
    assert caught.value.hint.endswith(f"e.g. {option} {example}")


@pytest.mark.parametrize(
    "arguments", [["history", "x", "--results", ""], ["run", "stage2", "--build-dir", ""], ["report", "--out", ""], ["lint-task", ""]]
)
def test_a_folder_or_file_has_a_name(arguments: list[str]) -> None:
    """An unset shell variable would else make the current folder the results."""
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 2 and "the name is empty: is a shell variable unset?" in done.stderr
