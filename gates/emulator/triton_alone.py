"""Make Triton work without a device: every configuration of an autotuner has its turn, and the interpreter takes floats as a GPU does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def prepare_interpreter() -> None:
    """Let Triton's interpreter run what runs on a GPU. Without Triton nothing happens: the task's own import of it says so."""
    try:
        import numpy as np
        import triton.language as tl
        from triton.runtime import interpreter
    except ImportError:
        return
    convert = interpreter._implicit_cvt

    def converted(argument: Any) -> Any:
        if type(argument) is not float:
            return convert(argument)
        return tl.tensor(interpreter.TensorHandle(np.array([argument], dtype=np.float32), tl.float32), tl.float32)

    interpreter._implicit_cvt = converted
    _replace_choice(_run_one)


def compile_each() -> None:
    """Let an autotuner run each of its configurations, and pass over those that can't be compiled while one can."""
    _replace_choice(_run_each)


def _replace_choice(run: Callable[..., Any]) -> None:
    """Make ``run`` choose where Triton's autotuner would measure several configurations."""
    try:
        from triton.runtime.autotuner import Autotuner
    except ImportError:
        return
    measured = Autotuner.run

    def chosen(self: Any, *arguments: Any, **options: Any) -> Any:
        if len(self.configs) < 2:
            return measured(self, *arguments, **options)
        self.nargs = dict(zip(self.arg_names, arguments, strict=False))
        return run(self, self.prune_configs(options), arguments, options)

    Autotuner.run = chosen


def _run_one(tuner: Any, configurations: list[Any], arguments: Any, options: Any) -> Any:
    """Run the configuration whose turn it is: another one for arguments of other shapes, the same one for the same shapes."""
    key = tuple((value.shape, value.dtype) for value in (*arguments, *options.values()) if hasattr(value, "dtype"))
    return _run(tuner, configurations[tuner.cache.setdefault(key, len(tuner.cache)) % len(configurations)], arguments, options)


def _run_each(tuner: Any, configurations: list[Any], arguments: Any, options: Any) -> Any:
    done, refusal = [], None
    for configuration in configurations:
        try:
            done.append(_run(tuner, configuration, arguments, options))
        except Exception as error:  # whatever Triton raises for a configuration that a device does not take
            refusal = error
    if not done and refusal is not None:
        raise refusal
    return done[0]


def _run(tuner: Any, configuration: Any, arguments: Any, options: Any) -> Any:
    values = {**options, **configuration.all_kwargs()}
    if configuration.pre_hook is not None:
        configuration.pre_hook({**tuner.nargs, **values})
    return tuner.fn.run(*arguments, **values)
