"""The evidence's fields with types and meanings, from the schemas, docs/internals/evidence-fields.yaml and each gate's fields.yaml.

A field without a meaning, and a meaning without a field, is an error. docs/internals/evidence.md lists the files.

Example: python scripts/docs/evidence_page.py performance
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from gates.core.schema import schema_path
from gates.gate.registry import ROWS

ROOT = Path(__file__).resolve().parents[2]
FIELDS = ROOT / "docs" / "internals" / "evidence-fields.yaml"
FILES = {
    "run": "What ran, where, with what and when.",
    "build": "What was built. The compilers' output is in build.log, the baseline's own files in `baseline/`.",
    **{gate: row.holds for gate, row in ROWS.items()},
    "verdict": "The decision and the verdict of each gate.",
    "manifest": "The digest of every other file of the run.",
    "acceptance": "A reviewer's acceptance of looser terms, written after the run and tied to its manifest.",
    "compare": "Two sides of a comparison, by `gates compare`.",
    "ladder": "Several runs as a ladder, by `gates compare` for more than two.",
    "evaluation": "What `gates evaluate` says of a candidate, under `results/evaluations/`; its evidence lies beside it.",
    "evolution": "What `gates evolve` tried, from what, and who won, under `results/evolve/`, next to texts, evaluations and timings.",
    "sweep": "A sweep over a task's toggles, by `gates sweep` under `results/sweeps/`; each variant's evidence is in `variants/`.",
}


def files_table() -> str:
    """The files of a run directory, for docs/internals/evidence.md."""
    rows = "".join(f"| `{kind}.json` | {what} |\n" for kind, what in FILES.items())
    return f"| file | holds |\n| --- | --- |\n{rows}"


class Fields:
    """The fields of all files; ``said`` maps a form of an object to where it was listed first."""

    def __init__(self) -> None:
        self.meanings: dict[str, str] = yaml.safe_load(FIELDS.read_text(encoding="utf-8"))
        for path in sorted(ROOT.glob("gates/gate/*/fields.yaml")):
            own = yaml.safe_load(path.read_text(encoding="utf-8"))
            self.meanings |= {f"{path.parent.name}.{place}": meaning for place, meaning in own.items()}
        self.used: set[str] = set()
        self.said: dict[str, str] = {}

    def tables(self) -> dict[str, str]:
        """A table for each file; raises KeyError for a field without a meaning, ValueError for a meaning without a field.

        A type in brackets is a list of it, in braces an object that maps names to it. `?` marks a field that may be null or absent.
        """
        tables = {}
        for kind in FILES:
            schema = json.loads(schema_path(kind).read_text(encoding="utf-8"))
            self.said[json.dumps(schema, sort_keys=True)] = f"{kind}.json"  # a file may hold more of its own form
            rows = "".join(f"| `{place}` | {written} | {meaning} |\n" for place, written, meaning in self._rows(schema, schema, kind, ""))
            tables[kind] = f"| field | type | meaning |\n| --- | --- | --- |\n{rows}"
        if unused := self.meanings.keys() - self.used:
            raise ValueError(f"{FIELDS.name} or a gate's fields.yaml explains fields that do not exist: {', '.join(sorted(unused))}")
        return tables

    def _rows(self, node: Any, top: Any, kind: str, path: str) -> Iterator[tuple[str, str, str]]:
        required = node.get("required", ())
        for name, part in node.get("properties", {}).items():
            written, inner, ending = _type(part, top)
            optional = "?" if name not in required and not written.endswith("?") else ""
            place = f"{path}{name}"
            meaning, form = self._meaning(kind, place, name), json.dumps(inner, sort_keys=True)
            if inner is not None and form in self.said:
                meaning += f"; as `{self.said[form]}`"
            yield place, f"`{written}{optional}`", meaning
            if inner is not None and form not in self.said:
                self.said[form] = f"{place}{ending}` of `{kind}.json"
                yield from self._rows(inner, top, kind, f"{place}{ending}.")

    def _meaning(self, kind: str, place: str, name: str) -> str:
        key = f"{kind}.{place}" if f"{kind}.{place}" in self.meanings else name
        self.used.add(key)
        return self.meanings[key]


def _type(part: Any, top: Any) -> tuple[str, Any, str]:
    """(the type in words, the schema of the object in it or None, how a path leads to that object)."""
    if "$ref" in part:
        node = top
        for step in part["$ref"].split("/")[1:]:
            node = node[step]
        return _type(node, top)
    if "anyOf" in part or isinstance(part.get("type"), list):
        options = part.get("anyOf") or [{**part, "type": kind} for kind in part["type"]]
        kept = [_type(option, top) for option in options if option.get("type") != "null"]
        ending = "?" if len(kept) < len(options) else ""
        return (
            " or ".join(dict.fromkeys(kind for kind, _, _ in kept)) + ending,
            next((inner for _, inner, _ in kept if inner), None),
            next((end for _, inner, end in kept if inner), ""),
        )
    if part.get("type") == "array":
        kind, inner, ending = _type(part.get("items", {}), top)
        return f"[{kind}]", inner, f"[]{ending}"
    if part.get("properties"):
        return "object", part, ""
    if part.get("type") == "object":
        others = part.get("additionalProperties")
        kind, inner, ending = _type(others, top) if isinstance(others, dict) else ("any", None, "")
        return f"{{{kind}}}", inner, f"[]{ending}"
    if "const" in part:
        return str(part["const"]), None, ""
    if "enum" in part:
        return "text", None, ""
    return (
        {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}.get(part.get("type", ""), "any"),
        None,
        "",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", choices=FILES, help="the file whose fields are printed")
    print(Fields().tables()[parser.parse_args().file], end="")
