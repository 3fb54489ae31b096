"""Calls custom_kernel of submission.py as the kernelbot format does; ref_kernel of reference.py where there is no submission."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from data_form import built


def run(form: Any, *tensors: torch.Tensor) -> Any:
    """The outputs for the data of this form, with new buffers for outputs among it."""
    return _function()(built(form, tensors))


@functools.lru_cache(maxsize=1)
def _function() -> Callable[[Any], Any]:
    submission = Path(__file__).with_name("submission.py")
    path = submission if submission.is_file() else submission.with_name("reference.py")
    name = f"{path.parent.name}_{path.stem}"  # of its own in a process that holds the baseline's too
    spec = importlib.util.spec_from_file_location(name, path, loader=type(__loader__)(name, str(path)))  # from its text, as this module
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module.custom_kernel if path == submission else module.ref_kernel
