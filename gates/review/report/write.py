"""Runs as one HTML page: from run directories to the file. Rendering is in ``gates.render.report``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gates import __version__
from gates.core.errors import GatesError
from gates.evidence.packed_runs import opened, origin
from gates.evidence.run_directory import own_file, require_outside_a_run, resolve_run, utc_now, write_outside_runs
from gates.review.history import Entry, entry_of, history, history_or_none, in_order, newest
from gates.review.report.ladders import ladders
from gates.review.report.run_view import Page, RunView, view

MOST_RUNS = 8  # shown in full with --all; a page of more is slow to make and nobody's reading


def write_report(results: Path, names: Sequence[str], out: Path | None) -> Path:
    """Write the report of the named runs to ``out`` (``results/report.html`` if None), or with no names of the newest run of each task and
    device.

    The history covers every run under ``results``, and there is each ladder with a task that is shown. Raises GatesError for what is no
    run, for a run that can't be read, where there are no runs, and where ``out`` can't be written.
    """
    from gates.render.report import html

    out = out or own_file("report.html")
    require_outside_a_run(out)
    _require_writable(out)
    text = html(page_of(results, names))
    write_outside_runs(out, text, hint="name a writable file with -o")
    return out


def page_of(results: Path, names: Sequence[str]) -> Page:
    """All that the page shows."""
    if names:
        runs = list(dict.fromkeys(resolve_run(name, results) for name in names))
        entries = _with(history_or_none(results), runs)
        views, left_out = tuple(view(run) for run in runs), 0
    else:
        entries, views, left_out = _newest_views(history(results))
    shown = {(one.info.task.name, one.info.device.name if one.info.device else None) for one in views}
    chains = tuple(chain for chain in ladders(entries) if any((step.entry.task, chain.device) in shown for step in chain.steps))
    return Page(__version__, utc_now().isoformat(timespec="seconds"), views, left_out, chains, entries)


def _newest_views(entries: Sequence[Entry]) -> tuple[tuple[Entry, ...], tuple[RunView, ...], int]:
    """The entries, the views of the newest of them, and how many tasks and devices are left out."""
    latest = sorted(newest(entries), key=lambda entry: entry.started)
    if not latest:
        raise GatesError(f"no readable run: {entries[0].path}: {entries[0].broken}", hint="`gates history` lists them all")
    chosen = in_order(latest[-MOST_RUNS:])
    views, unreadable = [], {}
    for entry in chosen:
        try:
            views.append(view(opened(Path(entry.path))))
        except GatesError as error:
            unreadable[entry.path] = error.what
    marked = tuple(replace(entry, broken=unreadable.get(entry.path, entry.broken)) for entry in entries)
    return marked, tuple(views), len(latest) - len(chosen)


def _with(entries: Sequence[Entry], runs: Sequence[Path]) -> tuple[Entry, ...]:
    """``entries`` and those of ``runs`` that lie elsewhere."""
    known = {Path(entry.path).resolve() for entry in entries}
    return in_order([*entries, *(entry_of(run) for run in runs if origin(run).resolve() not in known)])


def _require_writable(out: Path) -> None:
    """Refuse early what would fail after the work."""
    if out.is_dir():
        raise GatesError(f"can't write {out}: it is a folder", hint="name a file with -o")
    if not out.parent.is_dir():
        raise GatesError(f"can't write {out}: there is no folder {out.parent}", hint="name a file in a folder that exists with -o")
