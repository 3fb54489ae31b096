"""Stands for a CUDA device in Triton's runtime: kernels are compiled to PTX as for that device, and the emulator executes the PTX.

Tensors of a launch are tensors of the CPU: the memory behind each is copied to the emulator's before the launch, and back after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gates.core.errors import NotHere
from gates.emulator.control import Emulator
from gates.hardware.chips import Chip

_PARAMETERS = re.compile(r"\.entry\s+\w+\s*\((.*?)\)", re.DOTALL)


class TritonDevice:
    """A driver of Triton whose one device is ``emulator``, of the kind ``chip``. ``use`` makes it Triton's own."""

    def __init__(self, emulator: Emulator, chip: Chip) -> None:
        self._emulator, self._chip = emulator, chip
        self.utils, self.launcher_cls = self, self._launcher

    def use(self) -> None:
        """Have everything that Triton launches from now on run here. Raises NotHere where Triton does not work."""
        try:
            from triton.backends import Backend, backends
            from triton.backends.nvidia.compiler import CUDABackend
            from triton.runtime import driver
        except Exception as error:  # an installation that is broken, by whatever it raises
            raise NotHere(
                f"triton does not work here: {type(error).__name__}: {error}", hint="install it again", reason="no_tool"
            ) from error

        class ToPtx(CUDABackend):
            """Ends with the PTX: no assembler is needed."""

            def __init__(self, target: Any) -> None:
                super().__init__(target)
                self.binary_ext = "ptx"

            def add_stages(self, stages: dict[str, Any], *more: Any) -> None:
                super().add_stages(stages, *more)
                del stages["cubin"]

        backends["nvidia"] = Backend(compiler=ToPtx, driver=backends["nvidia"].driver)
        driver.set_active(self)

    # What Triton asks of a driver.

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self._chip.number, 32)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return divmod(self._chip.number, 10)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cuda", 0)

    def get_device_properties(self, device: Any = None) -> dict[str, int]:
        return {"max_shared_mem": self._chip.smem_per_cta, "multiprocessor_count": 4, "warpSize": 32, "max_num_regs": 65536}

    def load_binary(self, name: str, text: bytes, shared: int, device: Any) -> tuple[Any, Any, int, int, int]:
        ptx = text.decode()
        found = _PARAMETERS.search(ptx)
        return None, (self._emulator.load(ptx), found[1].count(".param") if found else 0), 0, 0, 1024

    def unload_module(self, module: Any) -> None:
        pass

    def _launcher(self, source: Any, metadata: Any) -> Callable[..., None]:
        kinds = list(source.signature.values())
        if metadata.num_ctas != 1:
            raise NotHere("the emulator has no clusters (num_ctas)", hint="judge the stage on a CUDA device", reason="not_emulated")

        def launch(
            x: int, y: int, z: int, stream: Any, function: Any, packed: Any, told: Any, enter: Any, leave: Any, *values: Any
        ) -> None:
            module, parameters = function
            memory = _Copies(self._emulator)
            try:
                given = [_argument(value, kind, memory) for value, kind in zip(values, kinds, strict=True) if kind != "constexpr"]
                scratch = int(getattr(metadata, "global_scratch_size", 0)) * x * y * z
                given += [memory.scratch(scratch) if scratch else 0, 0][: parameters - len(given)]
                self._emulator.launch(module, metadata.name, (x, y, z), (32 * metadata.num_warps, 1, 1), given, metadata.shared)
                if failed := self._emulator.error():
                    raise RuntimeError(failed)
                memory.bring_back()
            finally:
                memory.free()

        return launch


class _Copies:
    """The emulator's copies of the memory behind tensors, for one launch: tensors that share it share the copy."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._held: dict[int, tuple[int, int]] = {}  # where it is on the host: its bytes, where the copy is
        self._scratch: list[int] = []

    def place_of(self, tensor: Any) -> int:
        """The address of a tensor's first element in the copy."""
        memory = tensor.untyped_storage()
        begin, size = memory.data_ptr(), memory.nbytes()
        if begin not in self._held:
            self._held[begin] = size, self._emulator.allocate(size)
            self._emulator.write(self._held[begin][1], begin, size)
        return int(self._held[begin][1] + tensor.data_ptr() - begin)

    def scratch(self, size: int) -> int:
        """The address of ``size`` bytes that nothing has written."""
        self._scratch.append(self._emulator.allocate(size))
        return self._scratch[-1]

    def bring_back(self) -> None:
        for begin, (size, place) in self._held.items():
            self._emulator.read(place, begin, size)

    def free(self) -> None:
        for place in (*self._scratch, *(place for _, place in self._held.values())):
            self._emulator.free(place)


def _argument(value: Any, kind: str, memory: Any) -> int | float:
    if isinstance(kind, tuple) or kind.startswith("tensordesc"):
        raise NotHere(
            f"the emulator takes no argument of the type {kind} from Triton", hint="judge the stage on a CUDA device", reason="not_emulated"
        )
    if hasattr(value, "data_ptr"):
        return memory.place_of(value)
    if kind in ("fp16", "bf16", "fp64"):
        raise NotHere(
            f"the emulator takes no number of the type {kind} from Triton", hint="judge the stage on a CUDA device", reason="not_emulated"
        )
    return float(value) if kind == "fp32" else int(value)
