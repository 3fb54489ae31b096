"""The base of modes that see each of torch's operations."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class TorchMode(TorchDispatchMode):
    """A mode that torch's compiler is not imported for, which takes seconds: torch does that to leave a mode alone while it compiles."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
