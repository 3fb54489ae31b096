"""The usual ways of timing a kernel, as scripts do it: all of A, then all of B. Times in us a launch."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch

FLUSH_BYTES = 256 * 10**6
Fn = Callable[[], None]


def event_pairs(fn: Fn) -> dict[str, float]:
    """One event pair and one wait a call, p50 of 500."""
    times = []
    for _ in range(500):
        start, end = _events()
        start.record()
        fn()
        end.record()
        end.synchronize()
        times.append(1000.0 * start.elapsed_time(end))
    return {"event pair a call, p50 of 500": statistics.median(times)}


def flushed(fn: Fn) -> dict[str, float]:
    """256 MB overwritten before each call, an event pair around it, mean of 100."""
    room = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    pairs = [_events() for _ in range(100)]
    for start, end in pairs:
        room.zero_()
        start.record()
        fn()
        end.record()
    torch.cuda.synchronize()
    return {"256 MB flush, event pair, mean of 100": statistics.fmean(1000.0 * start.elapsed_time(end) for start, end in pairs)}


def triton_do_bench(fn: Fn) -> dict[str, float]:
    """triton.testing.do_bench with its defaults; mean and median of the same samples."""
    import triton.testing

    times = triton.testing.do_bench(fn, return_mode="all")
    return {"triton do_bench, mean": 1000.0 * statistics.fmean(times), "triton do_bench, median": 1000.0 * statistics.median(times)}


def triton_cudagraph(fn: Fn) -> dict[str, float]:
    """triton.testing.do_bench_cudagraph with its defaults."""
    import triton.testing

    return {"triton do_bench_cudagraph": 1000.0 * triton.testing.do_bench_cudagraph(fn)}


def graph_of_200(fn: Fn) -> dict[str, float]:
    """A CUDA graph of 200 launches, an event pair a replay, p50 of 40."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(200):
            fn()
    graph.replay()
    pairs = [_events() for _ in range(40)]
    for start, end in pairs:
        start.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    return {"graph of 200 launches, p50 of 40": statistics.median(1000.0 * start.elapsed_time(end) for start, end in pairs) / 200.0}


WAYS = (event_pairs, flushed, triton_do_bench, triton_cudagraph, graph_of_200)


def ratios(candidate: Fn, baseline: Fn) -> dict[str, float]:
    """baseline / candidate by each way."""
    found: dict[str, float] = {}
    for way in WAYS:
        for fn in (candidate, baseline):
            for _ in range(25):
                fn()
            torch.cuda.synchronize()
            for name, us in way(fn).items():
                found[name] = us / found[name] if name in found else us
    return found


def _events() -> tuple[torch.cuda.Event, torch.cuda.Event]:
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
