"""Warp without a driver: kernels are compiled for a named chip, and launches go to a function of ours.

Its arrays are those of the CPU. Each kernel is compiled in a module of its own, without its adjoint.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gates.core import jsonio
from gates.core.errors import DoesNotWork, NotHere

_PLACE = re.compile(r'parsing function ".*?" at (.+?):(\d+):')
_BLOCK = 256  # threads, where a launch names none
_TILES = re.compile(r"\btile_\w+\s*\(")
_ENTRY = re.compile(r"\.entry\s+(\w+)")
_LINE = re.compile(r"^\s*\.loc\s+(?P<place>\d+ \d+ \d+)(?:.*inlined_at (?P<caller>\d+ \d+ \d+))?.*$", re.MULTILINE)
_FILE = re.compile(r"^\s*\.file\s+(\d+)\s+\"(.*?)\"", re.MULTILINE)


@dataclass(frozen=True)
class Variant:
    """A kernel, compiled for blocks of ``threads``."""

    kernel: Any
    threads: int


def use(number: Callable[[], int], launch: Callable[..., None], refused: Callable[..., None] = lambda *_: None) -> None:
    """Compile from now on for the chip ``number()``, such as 90, and call ``launch(variant, values, grid, block, shared bytes)``.

    ``refused(error, places, message, function)`` is called before Warp raises its refusal of a kernel; a place is (file, line), the
    innermost first. Raises NotHere if Warp does not work here, or is of a version with other inner functions.
    """
    try:
        import warp
        from warp._src import context, torch

        normalised, made, cpu = context._normalize_launch_dim, warp.kernel, None
        _ = context._build_launch_bounds_from_tuple, context.pack_arg, warp.compile_aot_module
        warp.config.lineinfo = True
        warp.init()
        cpu = warp.get_device("cpu")
    except Exception as error:
        raise DoesNotWork("warp", error, "install it again: pip install -U 'kernel-gates[warp]'") from error

    def alone(function: Any = None, **options: Any) -> Any:
        return made(function, **{**options, "module": "unique", "enable_backward": False})

    def launched(
        kernel: Any, dim: Any, inputs: Any = (), outputs: Any = (), *more: Any, block_dim: int | None = None, **others: Any
    ) -> None:
        if more or others.get("adjoint") or others.get("record_cmd"):
            raise NotHere(
                "the emulator has no adjoint or recorded launches of Warp", hint="judge the stage on a CUDA device", reason="not_emulated"
            )
        values, (sizes, total) = [*inputs, *outputs], normalised(dim)
        if len(values) != (wanted := len(kernel.adj.args)):
            raise RuntimeError(f"Error launching kernel '{kernel.key}', passed {len(values)} arguments but kernel requires {wanted}")
        if kernel.is_generic:
            kernel = kernel._add_normalized_overload(kernel.infer_argument_types(values))
        if total:
            variant = Variant(kernel, block_dim or _BLOCK)
            try:
                _, shared_bytes = _compiled(variant, number())
            except Exception as error:
                said = str(error.args[0] if error.args else error)  # the text of a KeyError is quoted
                if places := [(file, int(line)) for file, line in _PLACE.findall(said)][::-1]:
                    refused(error, places, said.rpartition("\n;")[2], kernel.func)
                raise
            launch(variant, [sizes, *values], (-(-total // variant.threads), 1, 1), (variant.threads, 1, 1), shared_bytes)

    warp.kernel = alone
    warp.launch = context.launch = launched
    context.runtime.get_device = lambda name=None: cpu
    torch.device_from_torch = warp.device_from_torch = lambda device: cpu
    warp.ScopedStream = lambda *_, **__: contextlib.nullcontext()
    warp.stream_from_torch = lambda stream=None: SimpleNamespace(cuda_stream=0, device=cpu)


def ptx_of(variant: Variant, number: int) -> str:
    """Return the PTX of a kernel for the chip ``number``, where it has its Python name."""
    return _compiled(variant, number)[0]


def name_of(variant: Variant) -> str:
    """Return the name of a kernel's Python function."""
    return str(variant.kernel.func.__name__)


def options_of(variant: Variant) -> list[str]:
    """Return what else a kernel asks of the assembler."""
    return []


def parameters(variant: Variant, values: Sequence[Any], place_of: Callable[[Any], int]) -> list[Any]:
    """Return what a launch hands to the kernel: its sizes, and its arguments as Warp lays them out; ``place_of`` gives the address of a
    tensor's first element. Raises NotHere for a kernel with tiles, or with arrays in a structure.
    """
    import warp
    from warp._src import context
    from warp._src.codegen import Struct

    kernel, (sizes, *arguments) = variant.kernel, values
    if _TILES.search(kernel.adj.source):  # Warp's reductions of tiles shuffle with lanes that take no part, and ignore what they get
        raise NotHere("the emulator does not run Warp's tiles", hint="judge the stage on a CUDA device", reason="not_emulated")
    given = [context._build_launch_bounds_from_tuple(sizes, kernel.adj.kernel_dim)]
    for told, value in zip(kernel.adj.args, arguments, strict=True):
        if isinstance(told.type, Struct) and any(hasattr(field.type, "dtype") for field in told.type.vars.values()):
            raise NotHere(
                "the emulator reaches no array in a structure of Warp", hint="hand the array over as an argument", reason="not_emulated"
            )
        packed = context.pack_arg(kernel, told.type, told.label, value, None)
        if hasattr(packed, "data") and packed.data:
            given_as = getattr(value, "_tensor", None)  # of what wp.from_torch made
            packed.data = place_of(value if hasattr(value, "data_ptr") else warp.to_torch(value) if given_as is None else given_as)
        given.append(packed)
    return given


@cache
def _compiled(variant: Variant, number: int) -> tuple[str, int]:
    """The PTX, and the bytes of dynamic shared memory."""
    import warp

    kernel = variant.kernel
    kernel.module.options["block_dim"] = variant.threads
    with tempfile.TemporaryDirectory() as folder:
        (path,) = warp.compile_aot_module(kernel.module, arch=number, module_dir=folder, use_ptx=True)
        (told,) = (jsonio.read(one) for one in Path(folder).glob("*.meta"))
        text = Path(path).read_bytes().rstrip(b"\0").decode()
    (entry,) = _ENTRY.findall(text)
    return _of_own_files(re.sub(rf"\b{entry}\b", name_of(variant), text)), int(told[f"{entry}_smem_bytes"])


def _of_own_files(text: str) -> str:
    """The text with the lines of Warp's own headers replaced by that of the call in the user's file into which they were inlined."""
    foreign = {number for number, path in _FILE.findall(text) if "/warp/native/" in path}
    calls: dict[str, str] = {}  # the last call that led to a place of a header: "4 1171 5": "1 78 9"

    def own(found: re.Match[str]) -> str:
        place, caller = found["place"], found["caller"]
        if place.split()[0] not in foreign:
            return found[0]
        if caller and (known := calls.get(caller, "") if caller.split()[0] in foreign else caller):
            calls[place] = known
        return f"\t.loc\t{calls[place]}" if place in calls else ""

    return _LINE.sub(own, text)
