"""A kernel that gives wrong answers and tries everything to have them taken for right ones.

Each attempt's outcome goes to attempts.json in its scratch folder, the one place where it may write.
"""

import ctypes
import gc
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

import torch

PARENT = os.getppid()


def try_to_write_the_result():
    job = json.loads(Path(Path(f"/proc/{PARENT}/cmdline").read_bytes().split(b"\0")[-2].decode()).read_text())
    line = {"type": "done", "nonce": job["nonce"], "cases": 1}
    with open(job["result"], "a") as file:
        file.write(json.dumps(line) + "\n")


def try_to_remove_the_result():
    os.unlink(json.loads(Path(Path(f"/proc/{PARENT}/cmdline").read_bytes().split(b"\0")[-2].decode()).read_text())["result"])


def try_to_change_the_engine():
    import gates.gate.correctness.judge as judge

    Path(judge.__file__).open("a").close()


def try_to_read_the_parents_memory():
    open(f"/proc/{PARENT}/mem", "rb").close()


def try_to_trace_the_parent():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, PARENT, None, None) != 0:  # PTRACE_ATTACH
        raise PermissionError(ctypes.get_errno(), "ptrace")


def try_to_open_the_parents_files():
    for number in os.listdir(f"/proc/{PARENT}/fd"):
        os.close(os.open(f"/proc/{PARENT}/fd/{number}", os.O_RDONLY))


def try_to_stop_the_parent():
    os.kill(PARENT, signal.SIGSTOP)


def try_to_reach_the_network():
    socket.create_connection(("127.0.0.1", 9), timeout=1)


def try_to_reach_a_local_service():
    socket.socket(socket.AF_UNIX)


def try_to_find_the_reference():
    """Among everything that this process holds: frames, and tensors of the collector."""
    frames, frame = [], sys._getframe()
    while frame:
        frames.append(frame.f_code.co_name)
        frame = frame.f_back
    doubles = [one for one in gc.get_objects() if type(one) is torch.Tensor and one.dtype is torch.float64]
    if not doubles and not {"_check", "execute"} & set(frames):
        raise LookupError("no reference here")


ATTEMPTS = [value for name, value in list(globals().items()) if name.startswith("try_")]


def replace_what_judges():
    """All this works, in this process; it must change nothing where the judging is done."""
    import gates.gate.correctness.runner.accuracy
    import gates.task.problem
    import gates.worker.job

    wrong = {"max_abs_err": 0.0, "mean_abs_err": 0.0, "bad_pct": 0.0}
    usual = gates.gate.correctness.runner.accuracy.figures
    gates.gate.correctness.runner.accuracy.figures = lambda *args, **named: {**usual(*args, **named), **wrong}
    gates.worker.job.ResultWriter.write = lambda *args, **named: None
    gates.task.problem.Problem.reference = lambda self, inputs, shape: {"out": torch.zeros(64).double()}
    torch.Tensor.__sub__ = lambda self, other: torch.zeros_like(self)
    torch.Tensor.abs = lambda self: torch.zeros_like(self)
    torch.allclose = torch.equal = lambda *args, **named: True
    time.perf_counter = time.monotonic = lambda: 0.0
    torch.cuda.Event.elapsed_time = lambda self, end: 1e-6


def wrong(x):
    outcome = {}
    for attempt in ATTEMPTS:
        try:
            attempt()
            outcome[attempt.__name__] = "worked"
        except (OSError, LookupError) as error:
            outcome[attempt.__name__] = type(error).__name__
    Path("attempts.json").write_text(json.dumps(outcome))
    replace_what_judges()
    return torch.zeros_like(x)


def right(x):
    Path("/proc/self/comm").write_text("kernel")  # as CUDA's start does
    print('{"type": "done"}')  # what it prints is no result
    return 2 * x + 1


def leaves(x):
    os._exit(0)


def asks_for_a_device(x):
    torch.cuda.CUDAGraph()
    return x


def speaks_nonsense(x):
    header = b'{"value": {"tensor": 0}, "tensors": [{"dtype": "load", "shape": []}]}'
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        try:
            os.write(descriptor, len(header).to_bytes(8, "little") + header)
        except OSError:
            continue
    os._exit(0)


def spawns(x):
    from multiprocessing import get_context

    with get_context("spawn").Pool(1) as pool:
        return 2 * x + pool.apply(int, ("1",))


def caching(x):
    for name in ("NUMBA_CACHE_DIR", "CUPY_CACHE_DIR", "WARP_CACHE_PATH", "TILELANG_CACHE_DIR", "CUTE_DSL_CACHE_DIR", "CUDA_TILE_CACHE_DIR"):
        place = Path(os.environ[name])  # as kernel languages do at their first kernel
        place.mkdir(parents=True, exist_ok=True)
        (place / "kernel").write_text("compiled")
    return 2 * x + 1
