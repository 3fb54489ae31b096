"""The CUDA runtime in an emulator library, from outside: its memory, its checks, what it recorded. Needs the standard library alone."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gates.core.errors import GatesError
from gates.core.kernel_names import plain_name
from gates.hardware.chips import Chip, chip_of

# How a call differs from the others: the order of CTAs and warps, and what unwritten memory holds.
SEEDS = {"forward": 0, "reversed": 1, "shuffled": 2}
POISONS = {"forward": 0xFF, "shuffled": 0x00, "reversed": 0x7B}
_NO_LIMIT_MS = 2**40  # whoever started this process ends it
_TO_DEVICE, _TO_HOST = 1, 2
_ANSWERS = {
    **dict.fromkeys(("gates_cpu_findings", "gates_cpu_launches", "gates_cpu_allocations", "cudaGetErrorString"), ctypes.c_char_p),
    **dict.fromkeys(("gates_cpu_launches_left_out", "gates_cpu_executed"), ctypes.c_uint64),
    "gates_cpu_load": ctypes.c_void_p,
    "gates_cpu_executed_s": ctypes.c_double,
}


class Emulator:
    """One loaded library; raises GatesError for a library that is none."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name in ("findings", "launches", "reset", "configure"):
            if not hasattr(library, f"gates_cpu_{name}"):
                raise GatesError(f"{library._name} is not an emulator library: it lacks gates_cpu_{name}")
        self.library = library
        for name, kind in _ANSWERS.items():
            if (function := getattr(library, name, None)) is not None:  # a library built for one purpose lacks what that does not need
                function.restype = kind
        self.configure(threads=len(os.sched_getaffinity(0)), time_limit_ms=_NO_LIMIT_MS, races=0)

    def check(self, error: int, what: str) -> None:
        """Raise GatesError with the runtime's words if ``error`` is not success."""
        if error:
            raise GatesError(f"{what}: {self.library.cudaGetErrorString(error).decode()}")

    def configure(self, **values: int) -> None:
        """Set threads, time_limit_ms, seed, races, uninitialised, poison, approximations, or a limit of the chip."""
        for key, value in values.items():
            if self.library.gates_cpu_configure(key.encode(), ctypes.c_int64(value)):
                raise GatesError(f"{self.library._name} does not take {key} {value}", hint="build it again")

    def be(self, archs: Sequence[str]) -> None:
        """From now on say to be the oldest chip of ``archs``, with no more shared memory for a CTA than each of them has."""
        chips = _chips(archs)
        if not chips:
            return
        chip = oldest(archs)
        self.configure(
            capability=chip.number,
            shared_optin=min(chip.smem_per_cta for chip in chips),
            shared_per_multiprocessor=chip.smem_per_sm,
            threads_per_multiprocessor=chip.threads_per_sm,
            blocks_per_multiprocessor=chip.ctas_per_sm,
        )

    def look_for_races(self, look: bool = True) -> None:
        """Whether to look for races from now on, the check that costs most: about as much as the launch."""
        self.configure(races=int(look))

    def prepare(self, order: str, seed: int, memory: str | None = None) -> None:
        """Clear what earlier launches left and choose the order of the next ones, and with it what unwritten memory holds.

        ``memory`` names the order whose pattern it holds, where it is another. Approximate instructions err as ``seed`` says, the same
        in each order.
        """
        self.library.gates_cpu_reset()
        self.configure(approximations=seed + 1)
        self.configure(seed=SEEDS[order] and SEEDS[order] + len(SEEDS) * seed, poison=POISONS[memory or order])

    def record_alone(self) -> None:
        """From now on record launches without running them."""
        self.configure(launches_only=1)

    def left_out(self) -> int:
        """How many launches were not recorded, since the host had read results of those that were recorded alone."""
        return int(self.library.gates_cpu_launches_left_out())

    def stream(self) -> int:
        """A stream that is not the default one: a launcher may capture it."""
        made = ctypes.c_void_p()
        self.check(self.library.cudaStreamCreate(ctypes.byref(made)), "cudaStreamCreate")
        return made.value or 0

    @contextmanager
    def call(self, stream: int, given: Sequence[tuple[int, int]] = ()) -> Iterator[None]:
        """A launcher runs meanwhile that got ``stream``, and memory of these addresses and sizes. Its work on other streams has to be in
        order with the caller's.
        """
        flat = [part for place in given for part in place]
        places = (ctypes.c_uint64 * len(flat))(*flat)
        self.library.gates_cpu_begin_call(ctypes.c_void_p(stream), places, ctypes.c_uint64(len(given)))
        try:
            yield
        finally:
            self.library.gates_cpu_end_call()

    def allocate(self, size: int) -> int:
        """The address of ``size`` bytes that nothing has written (at least one)."""
        pointer = ctypes.c_void_p()
        if self.library.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(max(1, size))) != 0 or not pointer.value:
            raise MemoryError(f"not enough memory to allocate {size} bytes on the emulator")
        return pointer.value

    def free(self, address: int) -> None:
        """Give the memory back."""
        self.library.cudaFree(ctypes.c_void_p(address))

    def write(self, address: int, source: int, size: int) -> None:
        """Copy ``size`` bytes of the host's memory at ``source`` to ``address``."""
        self._copy(address, source, size, _TO_DEVICE)

    def read(self, address: int, to: int, size: int) -> None:
        """Copy ``size`` bytes at ``address`` to the host's memory."""
        self._copy(to, address, size, _TO_HOST)

    def allocated_bytes(self) -> int:
        """Memory that is held, variables of kernels apart."""
        return sum(block["bytes"] for block in json.loads(self.library.gates_cpu_allocations()))

    def load(self, ptx: str) -> int:
        """Load PTX text and return a handle for its kernels. A fault in the text is a finding when one of them is launched."""
        return int(self.library.gates_cpu_load(ptx.encode()) or 0)

    def launch(
        self, module: int, kernel: str, grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any], shared_bytes: int
    ) -> int:
        """Launch a kernel of loaded PTX by name, with whole numbers, addresses, floats and what ctypes has.

        Return the error of the launch; ``error`` says how it went.
        """
        values = [_as_c(value) for value in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values))
        shape = [(ctypes.c_uint32 * 3)(*(*part, 1, 1)[:3]) for part in (grid, block)]
        count = ctypes.c_uint64(len(values))
        launch = self.library.gates_cpu_launch
        return int(launch(ctypes.c_void_p(module), kernel.encode(), *shape, ctypes.c_uint64(shared_bytes), pointers, count))

    def error(self) -> str:
        """What a launch left as the runtime's error, in its words; empty if all went well."""
        code = self.library.cudaDeviceSynchronize()
        return self.library.cudaGetErrorString(code).decode() if code else ""

    def collect(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Launches and findings since ``prepare``, as evidence has them. A lasting error is forgotten, so that memory can be read."""
        launches = [self._launch(item) for item in json.loads(self.library.gates_cpu_launches().decode(errors="replace"))]
        findings = [_finding(item) for item in json.loads(self.library.gates_cpu_findings().decode(errors="replace"))]
        self.library.gates_cpu_reset()
        return launches, findings

    def _launch(self, item: dict[str, Any]) -> dict[str, Any]:
        name = str(item["kernel"])
        known = {key: value for key, value in item.items() if key != "warp_instructions"}
        return {**known, "kernel": plain_name(name), "function": self._readable(name)}

    def _readable(self, mangled: str) -> str:
        demangle = getattr(self.library, "__cxa_demangle", None)  # of the C++ library that the runtime is linked with
        if demangle is None:
            return mangled
        demangle.restype = ctypes.c_void_p
        text = demangle(mangled.encode(), None, None, ctypes.byref(ctypes.c_int()))
        if not text:
            return mangled
        try:
            return ctypes.string_at(text).decode()
        finally:
            ctypes.CDLL(None).free(ctypes.c_void_p(text))

    def _copy(self, to: int, source: int, size: int, kind: int) -> None:
        if size:
            self.check(self.library.cudaMemcpy(ctypes.c_void_p(to), ctypes.c_void_p(source), ctypes.c_size_t(size), kind), "cudaMemcpy")


def oldest(archs: Sequence[str]) -> Chip:
    """The oldest chip of ``archs``; of none that is known, an H100."""
    return min(_chips(archs) or _chips(["sm_90"]), key=lambda chip: chip.number)


def _as_c(value: Any) -> Any:
    if isinstance(value, (ctypes._SimpleCData, ctypes.Structure, ctypes.Array)):
        return value
    return ctypes.c_float(value) if isinstance(value, float) else ctypes.c_int64(value)


def _chips(archs: Sequence[str]) -> list[Chip]:
    return [chip for arch in archs if (chip := chip_of(arch)) is not None]


def _finding(item: dict[str, Any]) -> dict[str, Any]:
    """``message`` with the block and thread, then the second place of a race."""
    places = [f"{name} {tuple(item[name])}" for name in ("block", "thread") if item.get(name)]
    message = str(item["message"]) + (f" ({', '.join(places)})" if places else "")
    message += f"; the other access is at {item['other']}" if item.get("other") else ""
    kernel = plain_name(str(item["kernel"])) if item["kernel"] else ""
    return {"kind": str(item["code"]).removeprefix("cpu."), "kernel": kernel, "where": str(item["where"] or ""), "message": message}
