"""Answers for Triton without a device: a chip's properties, and the autotuner's configuration, each in its turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gates.emulator.torch_device import MULTIPROCESSORS
from gates.hardware.chips import Chip

# Of a compiled kernel: registers of a thread and bytes of spills, a guess that a grid may be computed of, and threads of a block.
GUESSED = (64, 0, 1024)


def properties(chip: Chip) -> dict[str, int]:
    """What Triton's driver says of a device of this kind."""
    return {
        "max_shared_mem": chip.smem_per_cta,
        "multiprocessor_count": MULTIPROCESSORS,
        "warpSize": 32,
        "max_num_regs": chip.registers_per_sm,
    }


def run_in_turn() -> None:
    """Let an autotuner run one of its configurations: another one for arguments of other shapes, the same one for the same shapes."""
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
