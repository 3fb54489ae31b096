"""A small task.yaml that is right, and a folder that holds it with changes."""

from __future__ import annotations

from pathlib import Path

import yaml

GOOD = {
    "name": "demo",
    "title": "Demo",
    "problem": "demo_problem",
    "sources": ["k.cu"],
    "entry": "demo",
    "kernels": ["demo_kernel"],
    "toggles": {"USE_FAST": 0},
    "arch": ["sm_89"],
    "shapes": ["small"],
    "seeds": [0, 1],
    "gates": {
        "ptxas": {"max_registers": 128, "max_smem_bytes": 65536, "max_spill_bytes": 0},
        "correctness": {"max_abs_err": 0.1, "mean_abs_err": 0.1, "bad_pct": 1.0, "bad_atol": 0.1},
    },
}


def write(root: Path, folder_name: str = "demo", text: str | None = None, **changes: object) -> Path:
    folder = root / folder_name
    folder.mkdir(exist_ok=True)
    (folder / "k.cu").write_text("", encoding="utf-8")
    data = {**GOOD, "name": folder_name, **changes}
    (folder / "task.yaml").write_text(yaml.safe_dump(data, sort_keys=False) if text is None else text, encoding="utf-8")
    return folder
