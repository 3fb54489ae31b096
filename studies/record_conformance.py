"""Record what a CUDA device does, for the tests that hold the emulator to it.

`record` compiles studies/conformance/*.cu with nvcc and runs every item on the device; `stages` runs the
shipped stages on the device and on the emulator, same inputs. Both need nvcc and g++, and `stages` torch.
What fails is written down and the rest goes on; files are written as results come in.

Examples: python studies/record_conformance.py record --out results/recorded/h200/conformance.json
          python studies/record_conformance.py stages --out results/recorded/h100/emulator
"""

from __future__ import annotations

import ctypes
import datetime
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from conformance import library, recording, stages  # noqa: E402
from conformance.items import ITEMS, SOURCES  # noqa: E402

from gates.build.build import build  # noqa: E402
from gates.build.toolchain import find_toolchain  # noqa: E402
from gates.core.errors import GatesError  # noqa: E402
from gates.launch import device as devices  # noqa: E402
from gates.launch.memory import DeviceMemory  # noqa: E402
from gates.task.load import find_task  # noqa: E402

STAGES = tuple(sorted(path.parent.name for path in (ROOT / "tasks").glob("stage*/task.yaml")))
ITEM_LIMIT_S = 30.0


@click.group(help=__doc__, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Entry point."""


@main.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="file to write")
def record(out: Path) -> None:
    """Run every conformance item on the device.

    Example: python studies/record_conformance.py record --out conformance.json
    """
    data = {"schema_version": recording.SCHEMA_VERSION, **_head(), "sources": {}, "items": {}, "failed": {}}
    nvcc, arch = find_toolchain().need("nvcc").path, data["device"]["compute_capability"].replace(".", "")
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        folder = Path(scratch)
        built = {
            source: pool.submit(library.build_for_device, source, folder / f"{source}.device.so", nvcc, f"sm_{arch}") for source in SOURCES
        }
        emulated = {source: pool.submit(library.build_for_emulator, source, folder) for source in SOURCES}
        for source in SOURCES:
            data["sources"][source] = library.source_digest(source)
            if text := built[source].result():
                data["failed"].update({name: f"nvcc: {text}" for name, item in ITEMS.items() if item.source == source})
            else:
                _run_source(source, folder / f"{source}.device.so", folder / f"{source}.jsonl", data)
            _write(out, data)
        _compare(data, emulated)
    data["ended"] = _now()
    _write(out, data)
    click.echo(f"{len(data['items'])} of {len(ITEMS)} items recorded, {len(data['failed'])} failed: {out}")
    for name, why in data["failed"].items():
        click.echo(f"failed: {name}: {why[-300:]}")
    sys.exit(0 if not data["failed"] else 1)


def _run_source(source: str, path: Path, results: Path, data: dict[str, Any]) -> None:
    """One process for the items of a source; after one that breaks the context or hangs, a new one for the rest."""
    left = [name for name, item in ITEMS.items() if item.source == source]
    while left:
        results.unlink(missing_ok=True)
        argv = [sys.executable, str(Path(__file__).resolve()), "run-items", str(path), str(results), *left]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False, timeout=ITEM_LIMIT_S + len(left))
            why = f"exit {done.returncode}: {done.stderr[-400:]}"
        except subprocess.TimeoutExpired:
            why = "still running at the time limit"
        found = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()] if results.is_file() else []
        for name, stored in found:
            data["items"][name] = stored
            if stored["error"]:
                data["failed"][name] = stored["error"]
        left = left[len(found) :]
        if left and (not found or not found[-1][1]["error"]):
            data["failed"][left.pop(0)] = why


@main.command("run-items", hidden=True)
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("results", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1)
def run_items(path: Path, results: Path, names: tuple[str, ...]) -> None:
    """Run items of one library on device 0; ends after the first that leaves a broken context."""
    memory, loaded = DeviceMemory(0), ctypes.CDLL(str(path))
    with results.open("w", encoding="utf-8") as file:
        for name in names:
            outcome = library.call(loaded, ITEMS[name], memory)
            file.write(json.dumps([name, recording.entry(ITEMS[name], outcome)]) + "\n")
            file.flush()
            if outcome.error:
                return


def _compare(data: dict[str, Any], emulated: dict[str, Future[Path]]) -> None:
    """Say where the emulator of this machine disagrees, for whoever makes the recording."""
    for source, future in emulated.items():
        try:
            loaded = library.Emulated(future.result())
        except GatesError as error:
            click.echo(f"emulator: {source}: {error.what}")
            continue
        for name, item in ITEMS.items():
            if item.source != source or name not in data["items"]:
                continue
            outcome = loaded.call(item)
            try:
                found = recording.compared(item, outcome.code, outcome.values, data["items"][name])
            except ValueError as error:
                found = [str(error)]
            for text in found:
                click.echo(f"differs: {text}")


@main.command("stages")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="folder to write")
@click.option("--shapes", default=",".join(stages.ALL_SHAPES), show_default=True)
@click.option("--build", "build_root", type=click.Path(path_type=Path), default=ROOT / "build", show_default=False, help="build folder")
def stage_outputs(out: Path, shapes: str, build_root: Path) -> None:
    """Run the shipped stages on the device and on the emulator, same inputs.

    Example: python studies/record_conformance.py stages --out results/recorded/h100/emulator
    """
    data = {"schema_version": 1, **_head(), "seeds": list(stages.SEEDS), "cases": {}, "outputs": {}, "failed": {}}
    from conformance import stage_runs

    arch = f"sm_{data['device']['compute_capability'].replace('.', '')}"
    tasks = {name: find_task(name) for name in STAGES}
    toolchain = find_toolchain()
    with ThreadPoolExecutor(len(tasks)) as pool:
        built = dict(
            zip(
                tasks,
                pool.map(
                    lambda task: build(task, toolchain, build_root, device_arch=arch, want=("device", "emulator"), jobs=4), tasks.values()
                ),
                strict=True,
            )
        )
    cases = [(stage, shape, seed) for shape in shapes.split(",") for seed in stages.SEEDS for stage in STAGES]
    with ProcessPoolExecutor(min(len(cases), os.cpu_count() or 2), multiprocessing.get_context("fork")) as pool:
        # All workers are forked at the first submit, before this process opens the device.
        waiting = {case: pool.submit(stage_runs.emulate, built[case[0]].side(tasks[case[0]], "emulator"), *case[1:]) for case in cases}
        ran: dict[Any, Any] = {}
        for case in cases:
            ran[case] = _attempt(
                data, case, "device", lambda case=case: stage_runs.on_device(built[case[0]].side(tasks[case[0]], "device"), *case[1:])
            )
        stage_runs.keep(data, {case: got for case, got in ran.items() if got is not None})
        _write(out / "stages.json", data)
        for case in cases:
            emulated = _attempt(data, case, "emulator", waiting[case].result)
            if ran[case] is not None and emulated is not None:
                figures = stages.compared(ran[case].bits, emulated.bits, emulated.exact)
                limit = tasks[case[0]].gates["correctness"]["max_abs_err"]
                data["cases"][_name(case)] = {**figures, "max_abs_err_limit": limit, "agrees": stages.passes(figures, limit)}
            _write(out / "stages.json", data)
    data["ended"] = _now()
    _write(out / "stages.json", data)
    good = sum(case["agrees"] for case in data["cases"].values())
    click.echo(f"{good} of {len(cases)} cases agree, {len(data['failed'])} failed: {out / 'stages.json'}")
    for name, figures in data["cases"].items():
        click.echo(
            f"{name}: {100 * figures['within_1_ulp']:.4f} % within 1 ulp, largest {figures['largest_ulp']} ulp, "
            f"{figures['largest_difference']:.3g}"
        )
    sys.exit(0 if good == len(cases) else 1)


def _attempt(data: dict[str, Any], case: Any, what: str, work: Any) -> Any:
    try:
        return work()
    except Exception as error:  # whatever it is, the other cases go on
        data["failed"][f"{_name(case)} {what}"] = f"{type(error).__name__}: {str(error)[:400]}"
        return None


def _name(case: tuple[str, str, int]) -> str:
    return f"{case[0]} {case[1]} seed {case[2]}"


def _head() -> dict[str, Any]:
    """Device, compiler and time; ends the program where one is missing."""
    found, toolchain = devices.probe(), find_toolchain()
    if not found.devices or toolchain.nvcc is None:
        click.echo(f"error: {found.reason or 'nvcc was not found'}", err=True)
        sys.exit(3)
    described = asdict(found.devices[0])
    del described["uuid"]
    return {"started": _now(), "device": described, "nvcc_version": toolchain.nvcc.version, "monotonic_s": round(time.monotonic(), 3)}


def _write(path: Path, data: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shown = {key: value for key, value in data.items() if key != "monotonic_s"}
    shown["elapsed_s"] = round(time.monotonic() - data["monotonic_s"], 1)
    temporary = path.with_suffix(".partial")
    temporary.write_text(json.dumps(shown, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    temporary.replace(path)


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


if __name__ == "__main__":
    main()
