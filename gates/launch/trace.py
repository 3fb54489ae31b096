"""How kernels are launched on a device, seen through the driver's activity records (CUPTI, by torch's profiler)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def launches(run: Callable[[], None]) -> list[dict[str, Any]]:
    """The kernels that ``run`` launches: {"kernel": readable name, "grid", "block", "smem_bytes": static and dynamic, "error": ""}."""
    from torch.autograd.profiler import profile  # that of torch.profiler imports torch's compiler, six seconds long

    with profile(use_cpu=False, use_device="cuda", use_kineto=True) as profiler:
        run()
    with tempfile.TemporaryDirectory(prefix="gates-trace-") as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return [
        {
            "kernel": event["name"],
            "grid": event["args"]["grid"],
            "block": event["args"]["block"],
            "smem_bytes": int(event["args"]["shared memory"]),
            "error": "",
        }
        for event in events
        if event.get("cat") == "kernel"
    ]
