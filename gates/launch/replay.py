"""Job "case": write launches to files, and replay them without torch.

``write`` (needs torch) makes the problem's inputs and stores them with poisoned outputs. ``replay``
of a C launcher needs only the standard library: it starts fast under ncu, compute-sanitizer and on the emulator,
launches nothing but the task's own kernel, and allocates every buffer by itself. A Python function gets torch's
tensors. The result's nonce and count of launches are the proof that the kernel ran under the tool.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gates.core.errors import GatesError
from gates.emulator.control import Emulator
from gates.launch import case_file, confined_replay, trace
from gates.launch.c_launcher import Kernel, KernelError
from gates.launch.emulated_kernel import EmulatedFunction
from gates.launch.entry_point import is_c, load, on_emulator
from gates.launch.memory import DeviceMemory, EmulatorMemory, TorchMemory
from gates.task.sources.default_stream import CURRENT
from gates.worker import turn
from gates.worker.job import ResultWriter, run_job

# Outputs of the largest shape under compute-sanitizer: large enough that a loop over stages comes round again, where a tile is
# overwritten that others still read.
LARGEST_ON_DEVICE_BYTES = 2**20


def write_cases(
    side: Mapping[str, Any],
    shapes: Sequence[str],
    *,
    work: Path,
    limit_s: float,
    seed: int = 0,
    smallest: bool = False,
    most_bytes: int = 0,
    values: bool = False,
    python: str = sys.executable,
) -> list[dict[str, Any]]:
    """Case files of ``shapes``, or with ``smallest`` of the smallest, the largest with at most ``most_bytes`` of outputs, and the problem's
    ODD_SHAPES; with ``values`` of structured values on the first of these, too.

    Each is {"shape", "inputs", "seed", "path", "bytes"}. Raises GatesError where they can't be written.
    """
    work.mkdir(parents=True, exist_ok=True)
    job = {
        "kind": "case",
        "mode": "write",
        "side": dict(side),
        "shapes": list(shapes),
        "seed": seed,
        "smallest": smallest,
        "most_bytes": most_bytes,
        "values": values,
        "folder_out": str(work),
    }
    tried = run_job(Path(side["folder"]), job, work, limit_s=limit_s, name="write", python=python)
    if (refusal := tried.refusal()) is not None:
        raise refusal
    lines = tried.own()
    if not lines or lines[-1].get("type") != "done":
        tail = tried.output_tail.strip().splitlines()
        raise GatesError(f"can't write the cases of {side['name']}: {tried.cause}", hint=tail[-1] if tail else None)
    return [{key: line[key] for key in ("shape", "inputs", "seed", "path", "bytes")} for line in lines if line["type"] == "case"]


def write_memory_cases(
    side: Mapping[str, Any], shapes: Sequence[str], *, on_device: bool, work: Path, limit_s: float, python: str = sys.executable
) -> list[dict[str, Any]]:
    """Case files for memory checks: of the smallest of ``shapes``, on a device of a larger one, else of structured values, and of the
    problem's ODD_SHAPES.
    """
    most_bytes = LARGEST_ON_DEVICE_BYTES if on_device else 0
    return write_cases(side, shapes, work=work, limit_s=limit_s, smallest=True, most_bytes=most_bytes, values=not on_device, python=python)


def execute(job: dict[str, Any], folder: Path) -> None:
    """Do a case job. ``mode`` is ``write`` or ``replay``.

    write: ``side``, ``folder_out``, and the cases: ``shapes`` (names) and ``seed``, or with
    ``smallest: true`` only the smallest of ``shapes``, the largest of at most ``most_bytes`` (0: none),
    and then the problem's ODD_SHAPES; with ``values: true`` also structured values of finite numbers on the first of these shapes.
    One ``case`` line a file: {"shape", "inputs", "seed", "path", "bytes"}.

    replay: ``side``, ``paths``, ``launches`` a case; optional ``device`` ("cuda:0"), ``checked`` (on the emulator: look for races
    and leaks, too), ``profile`` (open the profiler's window around the launches), ``warmup`` (launches
    before the window), ``flush_bytes`` (overwritten before every launch: cold L2), ``trace`` (a ``traced`` line with the
    launches as the device saw them), ``device_turn`` and ``turn`` (files of ``gates.worker.turn``: what it waits for before it touches the
    device, and before it loads the kernel). One ``case`` line a
    file: {"shape", "launches", "error", "output_sha256", "emulator_launches", "findings"}.
    """
    modes = {"write": _write, "replay": _replay}
    with ResultWriter(job) as writer:
        if job.get("mode") not in modes:
            raise GatesError(f"case job of mode {job.get('mode')!r}; known are write and replay")
        writer.write("header", mode=job["mode"])
        writer.write("done", cases=modes[job["mode"]](job, writer))


def _write(job: Mapping[str, Any], writer: ResultWriter) -> int:
    import torch

    from gates.launch import guarded_buffers as buffers
    from gates.task import problem as problems
    from gates.task import values
    from gates.task.problem import check_names

    problem = problems.load(job["side"]["problem"], Path(job["side"]["folder"]))
    check_names(problem, job["shapes"])
    shapes, seed, names = list(job["shapes"]), job.get("seed", 0), job["side"].get("arguments") or problem.ARGUMENTS
    if job.get("smallest"):
        sizes = {name: _size(problem, name) for name in shapes}
        larger = [name for name in shapes if sizes[name] <= job.get("most_bytes", 0)]
        shapes = [min(shapes, key=sizes.__getitem__), *sorted(larger, key=sizes.__getitem__)[-1:], *getattr(problem, "ODD_SHAPES", ())]
    cases = [(shape, problems.DEFAULT_INPUTS) for shape in dict.fromkeys(shapes)]
    if job.get("values"):
        cases += [
            (shapes[0], kind)
            for kind in values.kinds(problem, problem.SHAPES[shapes[0]], seed)
            if kind.partition(":")[0] not in problems.NON_FINITE
        ]
    for shape, family in cases:
        inputs = values.inputs_of(problem, family, problem.SHAPES[shape], seed, "cpu")
        poisoned = {name: buffers.poison(value, seed, 0) for name, value in problems.outputs_of(problem, problem.SHAPES[shape]).items()}
        outputs, arguments, content = {*poisoned, *getattr(problem, "IN_PLACE", ())}, [], {}
        given = problems.call_arguments(problem, inputs, poisoned, problem.SHAPES[shape], names)
        for name, value in zip(names, given, strict=True):
            if isinstance(value, torch.Tensor):
                content[name] = buffers.as_bytes(value).numpy().tobytes()
                arguments.append(
                    {
                        "name": name,
                        "kind": "buffer",
                        "output": name in outputs,
                        "written": name not in poisoned,
                        "bytes": len(content[name]),
                        "dtype": str(value.dtype).removeprefix("torch."),
                        "shape": list(value.shape),
                    }
                )
            elif type(value) in (int, float):
                arguments.append({"name": name, "kind": type(value).__name__, "value": value})
            else:
                arguments.append({"name": name, "kind": "plain", "value": _plain(name, value)})
        path = Path(job["folder_out"]) / f"{shape}.{family}.seed{seed}.case"
        case_file.write(path, shape, seed, arguments, content)
        writer.write("case", shape=shape, inputs=family, seed=seed, path=str(path), bytes=sum(map(len, content.values())))
    return len(cases)


def _size(problem: Any, shape: str) -> int:
    """Bytes of a shape's outputs, or inputs where the kernel makes its outputs: the measure of what a launch costs under a sanitizer."""
    from gates.task.problem import outputs_of

    values = outputs_of(problem, problem.SHAPES[shape]) or problem.make_inputs(problem.SHAPES[shape], 0, "cpu")
    return sum(value.numel() * value.element_size() for value in values.values() if hasattr(value, "numel"))


def _replay(job: Mapping[str, Any], writer: ResultWriter) -> int:
    if on_emulator(job["side"]):
        confined_replay.run_isolated(lambda write: _replay_here(job, write), job, writer)
    else:
        _replay_here(job, writer.write)
    return len(job["paths"])


def _replay_here(job: Mapping[str, Any], write: Callable[..., None]) -> None:
    emulated = bool(job["side"]["emulated"])
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"  # each of torch's buffers by itself, so that a checker sees its bounds
    if not is_c(job["side"]) and not on_emulator(job["side"]):
        _own_extensions(Path(job["result"]).parent / "extensions")
    memory: Any = TorchMemory() if emulated else None
    kernel: Any
    emulator: Emulator | None = None
    if on_emulator(job["side"]) and not is_c(job["side"]):
        function = EmulatedFunction(job["side"])
        kernel, emulator = function.run, function.emulator
    else:
        if "device_turn" in job:
            if not is_c(job["side"]):
                import torch  # noqa: F401  which takes seconds and leaves the device alone
            turn.wait(job["device_turn"])
        memory = memory or DeviceMemory(int(str(job.get("device", "cuda:0")).rpartition(":")[2] or 0))
        if "turn" in job:
            turn.wait(job["turn"])
        kernel = load(job["side"])
    if emulated and isinstance(kernel, Kernel):
        emulator = Emulator(kernel.library)
        emulator.be(job["side"].get("arch", ()))
        memory = EmulatorMemory(emulator)
    if emulator is not None and job.get("checked"):
        emulator.look_for_races()
    gc.freeze()  # what was loaded need not be looked at again when garbage is collected

    def replay() -> None:
        for index, path in enumerate(job["paths"]):
            write("phase", index=index, phase="kernel")
            write("case", index=index, **_replay_one(case_file.read(Path(path)), job, kernel, memory, emulator))

    if job.get("trace"):
        write("traced", launches=trace.launches(replay))
    else:
        replay()


def _own_extensions(folder: Path) -> None:
    """Let torch's loader build what a function compiles in ``folder``, once for all replays of it.

    In the user's cache another process may build under the same name; and torch waits for ever on the lock of one that was killed.
    """
    for lock in folder.glob("*/lock"):  # nobody else builds here
        lock.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TORCH_EXTENSIONS_DIR"] = str(folder)


def _buffers(case: case_file.CaseFile, kernel: Any, memory: Any, device: str) -> dict[str, Any]:
    """Each buffer of the case as its kernel takes it: an address, or a tensor."""
    if isinstance(kernel, Kernel):
        written = {argument["name"]: argument.get("written", True) for argument in case.arguments}
        return {name: ctypes.c_void_p(memory.allocate(content, written=written[name])) for name, content in case.content.items()}
    import torch

    if device != "cpu":
        torch.cuda.set_device(device)
    return {
        argument["name"]: torch.frombuffer(bytearray(case.content[argument["name"]]), dtype=getattr(torch, argument["dtype"]))
        .view(argument["shape"])
        .to(device)
        for argument in case.arguments
        if argument["kind"] == "buffer"
    }


def _called(kernel: Any, emulator: Any, stream: int, *arguments: Any) -> None:
    """Call a C launcher on the emulator."""
    with emulator.call(stream):
        kernel(*arguments, stream=stream)


def _replay_one(case: case_file.CaseFile, job: Mapping[str, Any], kernel: Any, memory: Any, emulator: Any) -> dict[str, Any]:
    buffers = _buffers(case, kernel, memory, "cpu" if job["side"]["emulated"] else str(job.get("device", "cuda:0")))
    arguments = [buffers[argument["name"]] if argument["kind"] == "buffer" else _value(argument) for argument in case.arguments]
    memory.settle()
    if emulator is not None:
        emulator.prepare("forward", case.seed)
        if is_c(job["side"]):
            kernel = partial(_called, kernel, emulator, emulator.stream() if job["side"].get("stream", CURRENT) == CURRENT else 0)
    launches, error, held = 0, "", list[int]()
    try:
        for _ in range(job.get("warmup", 0)):
            kernel(*arguments)
        error = memory.synchronize()
        for _ in range(job["launches"] if not error else 0):
            if job.get("flush_bytes"):
                memory.flush(job["flush_bytes"])
            if job.get("profile"):
                memory.window(True)
            kernel(*arguments)
            error = memory.synchronize()
            if job.get("profile"):
                memory.window(False)
            if error:
                break
            launches += 1
            if emulator is not None:
                gc.collect()  # tensors that only a cycle of Python objects holds are not lost
                held.append(emulator.allocated_bytes())
    except KernelError as failure:
        error = str(failure)
    result: dict[str, Any] = {
        "shape": case.shape,
        "launches": launches,
        "error": error,
        "output_sha256": "",
        "emulator_launches": [],
        "findings": [],
    }
    if emulator is not None:
        result["emulator_launches"], result["findings"] = emulator.collect()
        refused = next((launch for launch in result["emulator_launches"] if launch["error"]), None)
        if refused is not None:  # which the launcher may have hidden
            result["error"] = error or f"{refused['kernel']}: {refused['error']}"
        if held and (leaked := held[-1] - held[0]) > 0:
            message = f"{leaked} bytes that later calls of the launcher allocated were never freed"
            result["findings"].append({"kind": "leak", "kernel": "", "where": "", "message": message})
    if not result["error"]:
        digest = hashlib.sha256()
        for argument in case.arguments:
            if argument.get("output"):
                digest.update(_content(buffers[argument["name"]], argument["bytes"], memory))
        result["output_sha256"] = digest.hexdigest()
    return result


def _plain(name: str, value: Any) -> Any:
    """A value that is neither a tensor nor a number, as JSON data. Raises GatesError for one that holds tensors or can't be written."""
    from gates.worker import wire

    tensors: list[Any] = []
    try:
        found = wire.plain(value, tensors)
    except TypeError as error:
        raise GatesError(f"input {name!r}: {error}") from None
    if tensors:
        raise GatesError(
            f"input {name!r} is a {type(value).__name__} of tensors, which memory checks can't replay",
            hint="make each tensor a separate input",
        )
    return found


def _value(argument: Mapping[str, Any]) -> Any:
    if argument["kind"] != "plain":
        return float(argument["value"]) if argument["kind"] == "float" else int(argument["value"])
    from gates.worker import wire

    return wire.whole(argument["value"], [])


def _content(buffer: Any, size: int, memory: Any) -> bytes:
    if isinstance(buffer, ctypes.c_void_p):
        return memory.read(buffer.value, size)
    import torch

    return buffer.cpu().reshape(-1).view(torch.uint8).numpy().tobytes()
