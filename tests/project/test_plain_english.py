"""README, docs, --help, error texts and reason codes are plain English, and short.

A pattern names a phrase that readers stumble over; beside it is what to write. A line that needs the phrase is listed under EXCEPTIONS.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from places import ROOT

from gates.cli.main import cli
from gates.diagnostics.explain import all_codes

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    path for path in (ROOT / "docs").rglob("*") if path.suffix in (".md", ".yaml")
)
PHRASES = {
    r"(?<!there )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|\w+er than\b)": "is not a …",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\bgo(?:es)? on\b|\bgone on\b": "continue",
    r"\b(?:is|are) told\b|\btells? (?:that|of|what|where|why|how)\b": "report, say",
    r"\bstands?\b(?! for\b)": "is",
    r"\bl(?:ies|ie|ay|ying)\b": "is",
    r"\bheld (?!to\b)": "kept",
    r"\bbeside\b": "next to, with, alongside",
    r"\banew\b": "again",
    r"\ball the same\b": "anyway, still",
    r"\b(?:for|is|in) want of\b": "for lack of",
    r"\bbut for\b": "except for",
    r"\bwhere (?:there (?:is|are)|nothing|none|no)\b": "if, without",
    r"\bnull answers?\b": "trivial output",
    r"\bclockwork\b": "timer",
    r"\b(?:what was seen|what is wrong with|what of it)\b": "result, problem",
    r"\b(?:those of one|such a one|one that has none)\b": "repeat the noun",
    r"\b(?:registers|threads|warps|CTAs|bytes|clocks|rows|keys|elements|instructions) an? "
    r"(?:thread|warp|CTA|tile|SM|core|block|row|key|kernel|launch)\b": "per",
}
EXCEPTIONS: dict[str, tuple[str, ...]] = {}  # page, file, command or code: the phrases that it needs


def vices(where: str, text: str) -> list[str]:
    """Each phrase in ``text`` that is not an exception of ``where``, with what to write instead."""
    return [
        f"{where}: {match[0].strip()!r} -> {better!r} in: {text[max(0, match.start() - 60) : match.end() + 40]!r}"
        for pattern, better in PHRASES.items()
        for match in re.finditer(pattern, text, re.IGNORECASE)
        if match[0].strip() not in EXCEPTIONS.get(where, ())
    ]


def by_hand(page: Path) -> str:
    """A page without its generated parts and code."""
    text = page.read_text(encoding="utf-8")
    if page.name == "kill-matrix.md":  # generated as a whole; its rows describe defects
        return ""
    text = re.sub(r"<!-- generated: .*?<!-- end[^>]*-->", "", text, flags=re.DOTALL)
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def help_texts(name: str, command: click.Command) -> Iterator[tuple[str, str]]:
    """The help of ``command``, its options and its subcommands."""
    yield name, " ".join((command.help or "").split())
    for option in command.params:
        if isinstance(option, click.Option):
            yield f"{name} {option.opts[0]}", option.help or ""
    if isinstance(command, click.Group):
        for word, inner in command.commands.items():
            yield from help_texts(f"{name} {word}", inner)


def error_texts() -> Iterator[tuple[str, str]]:
    """The texts of every GatesError that the code raises."""
    for path in sorted((ROOT / "gates").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "GatesError":
                for part in ast.walk(node):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield path.relative_to(ROOT).as_posix(), part.value


def test_the_patterns_find_what_they_should() -> None:
    for text in (
        "x is no run directory",
        "mend `baseline:`",
        "the same command goes on",
        "key 'a' stands twice",
        "128 registers a thread",
        "beside the run",
    ):
        assert vices("somewhere", text), text
    for text in (
        "there is no device",
        "is no longer there",
        "is no larger than 3",
        "128 registers per thread",
        "stands for",
        "next to the run",
    ):
        assert not vices("somewhere", text), text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_plain(page: Path) -> None:
    where = page.relative_to(ROOT).as_posix()
    assert [line for text in by_hand(page).splitlines() for line in vices(where, text)] == []


def test_messages_are_plain() -> None:
    texts = [*help_texts("gates", cli), *error_texts(), *((code, known.explanation) for code, known in all_codes().items())]
    assert len(texts) > 500 and [line for where, text in texts for line in vices(where, text)] == []


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120 and len(text.split()) <= 900


def test_the_documentation_is_short() -> None:
    words = {page.relative_to(ROOT).as_posix(): len(page.read_text(encoding="utf-8").split()) for page in (ROOT / "docs").rglob("*.md")}
    assert sum(words.values()) <= 25_000, sorted(words.items(), key=lambda item: -item[1])[:8]


def test_the_glossary_is_short() -> None:
    glossary = (ROOT / "docs" / "README.md").read_text(encoding="utf-8").partition("## Glossary")[2]
    assert 5 < glossary.count("\n| ") - 2 <= 15
