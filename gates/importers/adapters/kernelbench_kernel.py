"""Calls the model of model.py as the KernelBench format does: ModelNew, or Model where the reference itself is timed."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

WEIGHTS_SEED = 42  # the format draws the weights of Model and of ModelNew under this seed
torch.backends.cudnn.allow_tf32 = False  # the problem's precision is float32, also in convolutions


def run(init_inputs: tuple[Any, ...], *inputs: Any) -> Any:
    """The outputs of forward. The model is made at the first call with these init inputs on this device."""
    device = next((str(value.device) for value in inputs if isinstance(value, torch.Tensor)), "cpu")
    with torch.no_grad():
        return _model(tuple(init_inputs), device)(*inputs)


_models: dict[str, Any] = {}


def _model(init_inputs: tuple[Any, ...], device: str) -> Any:
    key = repr((init_inputs, device))  # lists among them can't be keys
    if key not in _models:
        module = _module()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(WEIGHTS_SEED)
            _models[key] = (getattr(module, "ModelNew", None) or module.Model)(*init_inputs).to(device)
    return _models[key]


@functools.lru_cache(maxsize=1)
def _module() -> ModuleType:
    path = Path(__file__).with_name("model.py")
    name = f"{path.parent.name}_model"  # of its own in a process that holds the baseline's too
    spec = importlib.util.spec_from_file_location(name, path, loader=type(__loader__)(name, str(path)))  # from its text, as this module
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
