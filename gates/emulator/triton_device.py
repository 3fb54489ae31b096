"""Stands for a CUDA device in Triton's runtime: kernels are compiled to PTX as for that device, and the emulator executes the PTX."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gates.core.errors import DoesNotWork, NotHere
from gates.emulator import triton_alone
from gates.emulator.control import Emulator
from gates.emulator.copies import Copies, copied
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
        except Exception as error:
            raise DoesNotWork("triton", error) from error

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
        triton_alone.run_in_turn()

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
        return triton_alone.properties(self._chip)

    def load_binary(self, name: str, text: bytes, shared: int, device: Any) -> tuple[Any, ...]:
        ptx = text.decode()
        found = _PARAMETERS.search(ptx)
        return None, (self._emulator.load(ptx), found[1].count(".param") if found else 0), *triton_alone.GUESSED

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
            with copied(self._emulator) as memory:
                given = [_argument(value, kind, memory) for value, kind in zip(values, kinds, strict=True) if kind != "constexpr"]
                scratch = int(getattr(metadata, "global_scratch_size", 0)) * x * y * z
                given += [memory.scratch(scratch) if scratch else 0, 0][: parameters - len(given)]
                self._emulator.launch(module, metadata.name, (x, y, z), (32 * metadata.num_warps, 1, 1), given, metadata.shared)

        return launch


def _argument(value: Any, kind: str, memory: Copies) -> int | float:
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
