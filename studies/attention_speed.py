"""How fast is attention here? The stages beside PyTorch's backends and, where it is installed, FlashAttention-4.

One row for each shape; FILE is written afresh after each. The L2 cache is overwritten before each sample, samples are replays of CUDA
graphs, and contenders take turns block by block. Rows of each output are compared with attention in float32.

    python studies/attention_speed.py --out FILE
    python studies/attention_speed.py --out FILE --shape 8,16,2048,2048,128,1 --stage fp16_v10_hopper --stage fp16_v11_pingpong,TILE_N=160
    python studies/attention_speed.py --out FILE --attention

``--attention`` adds ``attention(q, k, v)`` of kernels/attention.py: on the same tensors, in bfloat16, in the order [B, S, H, D], with a
quarter of the heads of K and V, and with the log-sum-exp. Its row names the kernel that it picks, and the stage that was fastest.

An FP8 stage gets the same tensors, quantised. Its error is that of the format, too.

Without a device (`--cpu`) nothing is timed: stages run on the emulator, beside PyTorch on the CPU. Give small shapes then.
A contender that fails, crashes or hangs is named in its row, and the others go on.

The errors of ``attention`` at "one query" in results/recorded/h200/attention.json are the study's: it then launched on inputs that another
stream was still drawing. It waits for them now.
"""

from __future__ import annotations

import concurrent.futures
import functools
import itertools
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import torch

from gates.build.build import build
from gates.build.toolchain import find_toolchain
from gates.core import jsonio
from gates.core.errors import GatesError
from gates.launch.c_launcher import Kernel
from gates.launch.device import probe
from gates.launch.emulated_kernel import EmulatedKernel
from gates.task.load import find_task
from gates.task.problem import load
from kernels import loader
from kernels.attention import Attention, pick
from tasks.problems import sdpa
from tasks.problems.sdpa_fp8_inputs import quantise
from tasks.problems.sdpa_fp16_operator import on_cpu as emulated_attention

SHAPES = {
    "small": "1,1,32,32,64,0",
    "mission": "1,8,512,512,64,0",
    "mission causal": "1,8,512,512,64,1",
    "long": "1,8,2048,2048,64,0",
    "long causal": "1,8,2048,2048,64,1",
    "big": "4,16,4096,4096,64,0",
    "big causal": "4,16,4096,4096,64,1",
    "16k": "1,32,16384,16384,64,0",
    "16k causal": "1,32,16384,16384,64,1",
    "wide 512": "32,16,512,512,128,0",
    "wide 2k": "8,16,2048,2048,128,0",
    "wide 2k causal": "8,16,2048,2048,128,1",
    "wide 8k": "2,16,8192,8192,128,0",
    "wide 8k causal": "2,16,8192,8192,128,1",
    "wide 16k": "1,16,16384,16384,128,0",
    "wide 1k causal": "1,32,1024,1024,128,1",
    "few queries": "1,32,16,8192,128,0",
    "few queries, narrow": "1,32,16,8192,64,0",
    "one query": "8,32,1,4096,128,0",
    "wide mission": "1,8,512,512,128,0",
    "wide mission causal": "1,8,512,512,128,1",
    "many heads": "256,16,128,128,64,0",
}
STAGES = ("fp16_v9_pipeline", "fp16_v10_hopper", "fp16_v11_pingpong")
OTHERS = ("cudnn", "flash", "fa4")
ROUNDS = 6  # of one block for each contender
BLOCK_US, MOST_SAMPLES = 15_000.0, 12  # of a block
GRAPH_US, MOST_SETS = 200.0, 32  # launches of one sample take so long together, and have an input set each
CHECKED_ROWS = 128  # queries of each head
TOLERANCE = 2e-3  # absolute, and relative to the largest value: P and O are rounded to half
TOLERANCE_BF16 = 8 * TOLERANCE  # bfloat16 has three bits less
TOLERANCE_FP8 = 64 * TOLERANCE  # E4M3 has seven bits less; the errors of many keys are not the same
HANGS_S, BEGINS_S = 20.0, 90.0  # without a word from the measuring process; before its first word, and while others compile

Shape = tuple[int, int, int, int, int, bool]  # B, H, Sq, Sk, D, causal
Call = Callable[[int], torch.Tensor]  # of an input set's number: a launch, and its output


@dataclass(frozen=True)
class Stage:
    """A stage's built library; ``name`` has its toggles where they are not its own. ``entry`` is called with ``arguments``."""

    name: str
    library: Path
    entry: str = ""
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Form:
    """Tensors, and what is asked for, of a call of ``attention``. ``group``: heads of Q that share a head of K and V."""

    dtype: torch.dtype = torch.float16
    strided: bool = False  # in memory [B, S, H, D]
    group: int = 1
    lse: bool = False

    @property
    def tolerance(self) -> float:
        return TOLERANCE if self.dtype == torch.float16 else TOLERANCE_BF16


PLAIN = Form()
FORMS = {
    "attention": PLAIN,
    "attention bf16": Form(torch.bfloat16),
    "attention bshd": Form(strided=True),
    "attention grouped": Form(group=4),
    "attention lse": Form(lse=True),
}


@dataclass(frozen=True)
class Asked:
    """Who is measured, and whether on the emulator."""

    stages: tuple[Stage, ...]
    others: tuple[str, ...]
    on_cpu: bool
    attention: Attention | None = None


class Inputs:
    """Input sets of one shape: q [B, H, Sq, D], k and v [B, Hkv, Sk, D], N(0, 1), and outputs full of NaN."""

    def __init__(self, shape: Shape, device: str, least_bytes: int, form: Form = PLAIN) -> None:
        batch, heads, queries, keys, width, self.causal = shape
        if heads % form.group:
            raise ValueError(f"{heads} heads are not groups of {form.group}")
        self.scale, self.group = 1.0 / math.sqrt(width), form.group
        one = 2 * batch * heads * width * (2 * queries + 2 * keys)
        count = max(1, min(MOST_SETS, math.ceil(least_bytes / one)))
        draw = torch.Generator(device).manual_seed(0)

        def normal(heads: int, rows: int) -> torch.Tensor:
            order = (rows, heads) if form.strided else (heads, rows)
            values = torch.randn((count, batch, *order, width), generator=draw, device=device, dtype=form.dtype)
            return values.transpose(2, 3) if form.strided else values

        self.q, self.k, self.v = normal(heads, queries), normal(heads // form.group, keys), normal(heads // form.group, keys)
        self.out = torch.empty_like(self.q)

    def __len__(self) -> int:
        return len(self.q)

    def error(self, out: torch.Tensor) -> float:
        """Of the last set's ``out`` [B, H, Sq, D], on some rows of every head: the largest error over max(1, largest value)."""
        q, k, v = self.q[-1], *(tensor[-1].repeat_interleave(self.group, dim=1) for tensor in (self.k, self.v))
        rows = torch.linspace(0, q.shape[2] - 1, min(CHECKED_ROWS, q.shape[2]), device=q.device).long()
        worst = 0.0
        for batch in range(len(q)):
            scores = q[batch][:, rows].float() @ k[batch].float().transpose(1, 2) * self.scale
            if self.causal:
                scores.masked_fill_(torch.arange(k.shape[2], device=q.device) > rows[:, None], -math.inf)
            exact = torch.softmax(scores, dim=-1) @ v[batch].float()
            error = (out[batch][:, rows].float() - exact).abs().max() / exact.abs().max().clamp(min=1.0)
            worst = max(worst, float(torch.nan_to_num(error, nan=math.inf)))
        return worst


def contenders(asked: Asked, some: Callable[..., Inputs]) -> dict[str, Callable[[], tuple[Inputs, Call]]]:
    """Makers of the inputs and the call by name; ``some`` makes inputs. A maker raises if its package is missing."""
    inputs = some()
    found: dict[str, Callable[[], tuple[Inputs, Call]]] = {}
    for stage in asked.stages:
        found[stage.name] = lambda stage=stage: (inputs, _ours(stage, inputs, asked.on_cpu))
    for name in asked.others:
        found[name] = lambda name=name: (inputs, _fa4(inputs) if name == "fa4" else _backend(name, inputs, asked.on_cpu))
    for name, form in FORMS.items() if asked.attention else ():
        found[name] = functools.partial(_attention, asked.attention, some, form)
    return found


def _ours(stage: Stage, inputs: Inputs, on_cpu: bool) -> Call:
    kernel: Any = EmulatedKernel(stage.library, stage.entry) if on_cpu else Kernel(stage.library, stage.entry)
    batch, heads, queries, width = inputs.q.shape[1:]
    sizes = {"B": batch, "H": heads, "S": queries, "Sq": queries, "Sk": inputs.k.shape[3], "D": width, "causal": int(inputs.causal)}
    values: dict[str, Any] = {**sizes, "softmax_scale": inputs.scale}
    if "S" in stage.arguments and inputs.k.shape[3] != queries:
        raise ValueError("it has as many queries as keys")
    if "causal" not in stage.arguments and inputs.causal:
        raise ValueError("it has no causal mask")
    tensors = {"q": inputs.q, "k": inputs.k, "v": inputs.v, "out": inputs.out}
    if "q_scale" in stage.arguments:
        for name in ("q", "k", "v"):
            tensors[name], tensors[f"{name}_scale"] = map(torch.stack, zip(*map(quantise, tensors[name]), strict=True))

    def call(number: int) -> torch.Tensor:
        current = {} if on_cpu else {"stream": torch.cuda.current_stream().cuda_stream}
        kernel(*(tensors[name][number] if name in tensors else values[name] for name in stage.arguments), **current)
        return inputs.out[number]

    return call


def _backend(name: str, inputs: Inputs, on_cpu: bool) -> Call:
    def call(number: int) -> torch.Tensor:
        q, k, v = inputs.q[number], inputs.k[number], inputs.v[number]
        if on_cpu:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=inputs.causal)
        return sdpa.backends(q, k, v, inputs.scale, inputs.causal)[name]()

    return call


def _fa4(inputs: Inputs) -> Call:
    from flash_attn.cute import flash_attn_func

    def call(number: int) -> torch.Tensor:
        q, k, v = (tensor[number].transpose(1, 2) for tensor in (inputs.q, inputs.k, inputs.v))
        out = flash_attn_func(q, k, v, softmax_scale=inputs.scale, causal=inputs.causal)
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

    return call


def _attention(attention: Attention, some: Callable[..., Inputs], form: Form) -> tuple[Inputs, Call]:
    inputs = some(form=form)

    def call(number: int) -> torch.Tensor:
        out = attention(inputs.q[number], inputs.k[number], inputs.v[number], causal=inputs.causal, return_lse=form.lse)
        return out[0] if isinstance(out, tuple) else out

    return inputs, call


class Measuring:
    """The rows of one process: ``say`` gets what it begins, and each row."""

    def __init__(self, asked: Asked, say: Callable[[tuple[str, Any]], None]) -> None:
        self.asked, self.on_cpu, self.say = asked, asked.on_cpu, say
        if not self.on_cpu:
            from gates.gate.performance.runner.cuda_graphs import Clockwork

            self.clock = Clockwork(torch.device("cuda:0"))

    def row(self, name: str, shape: Shape, skipped: Mapping[str, str]) -> dict[str, Any]:
        """``skipped``: contenders that ended an earlier process on this shape, and how."""
        some = functools.partial(Inputs, shape, "cpu" if self.on_cpu else "cuda", 0 if self.on_cpu else 3 * self.clock.l2_bytes)
        operations = 4.0 * shape[0] * shape[1] * shape[4] * _seen(shape)
        row: dict[str, Any] = {"name": name, "shape": list(shape), "contenders": {who: {"failed": why} for who, why in skipped.items()}}
        timers: dict[str, tuple[Any, int, Call, list[float]]] = {}  # a call keeps the tensors that its graph reads
        for who, make in contenders(self.asked, some).items():
            if who in skipped:
                continue
            self.say(("begins", who))
            try:
                inputs, call = make()
                inputs.out.fill_(math.nan)
                out = self._once(call, len(inputs) - 1)
                if not math.isfinite(error := inputs.error(out)):
                    raise ArithmeticError("its output is not finite, or not written")
                row["contenders"][who] = {"error": error}
                if not self.on_cpu:
                    timers[who] = (*self._graph(call, len(inputs)), call, [])
            except Exception as error:
                row["contenders"][who] = {"failed": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"}
        for turn in range(ROUNDS):
            for who in list(timers)[:: 1 if turn % 2 == 0 else -1]:
                self.say(("times", who))
                graph, launches, _, times = timers[who]
                samples = 2 if turn == 0 else max(2, min(MOST_SAMPLES, int(BLOCK_US / (launches * max(times)))))
                block = self.clock.elapsed_us(lambda _, graph=graph: graph.replay(), samples, flush=True)
                times[:] = ([] if turn == 1 else times) + [us / launches for us in block]  # the first round warms the card up
        for who, (*_, times) in timers.items():
            us = statistics.median(times)
            row["contenders"][who] |= {"us": us, "least_us": min(times), "tflops": operations / us * 1e-6}
        if self.asked.attention:
            batch, heads, *sizes = shape
            row["picked"] = pick((9, 0) if self.on_cpu else torch.cuda.get_device_capability(), batch * heads, *sizes)
        return row

    def _once(self, call: Call, number: int) -> torch.Tensor:
        if self.on_cpu:
            return call(number)
        self.clock.stream.wait_stream(torch.cuda.current_stream())  # which may still draw the inputs
        with torch.cuda.stream(self.clock.stream):
            out = call(number)
        self.clock.stream.synchronize()
        return out

    def _graph(self, call: Call, sets: int) -> tuple[Any, int]:
        """A graph of launches on an input set each, and how many."""
        with torch.cuda.stream(self.clock.stream):
            rough = min(self.clock.elapsed_us(lambda _: call(0), 3, flush=False, host_bound=True))
        launches = max(1, min(sets, int(GRAPH_US / rough)))
        return self.clock.capture([lambda _, number=number: call(number) for number in range(launches)]), launches


def _seen(shape: Shape) -> int:
    """Pairs of a query and a key that it sees, of one head."""
    _, _, queries, keys, _, causal = shape
    return sum(min(row + 1, keys) for row in range(queries)) if causal else queries * keys


def _measure(pipe: Any, asked: Asked, todo: Sequence[tuple[str, Shape, Mapping[str, str]]]) -> None:
    measuring = Measuring(asked, pipe.send)
    for name, shape, skipped in todo:
        pipe.send(("row", measuring.row(name, shape, skipped)))


def measured(asked: Asked, shapes: Mapping[str, Shape], until: float, keep: Callable[[dict[str, Any]], None]) -> list[str]:
    """Give each row to ``keep``; return the names of those that the time, ``until``, left out.

    If a process dies or hangs, another one measures the rest, and in that row all but the contender that was under way.
    """
    left, skipped = dict(shapes), dict[str, dict[str, str]]()
    while left and time.monotonic() < until:
        ours, theirs = multiprocessing.get_context("fork").Pipe()
        todo = [(name, shape, skipped.get(name, {})) for name, shape in left.items()]
        process = multiprocessing.get_context("fork").Process(target=_measure, args=(theirs, asked, todo), daemon=True)
        process.start()
        theirs.close()
        who, end = "", ""
        try:
            while left and not end:
                patience = BEGINS_S if who in ("", "fa4") or asked.on_cpu else HANGS_S
                if not ours.poll(max(0.0, min(patience, until - time.monotonic()))):
                    end = f"no answer for {patience:g} s" if time.monotonic() < until else "the budget is used up"
                    continue
                kind, said = ours.recv()
                if kind == "row":
                    del left[said["name"]]
                    keep(said)
                else:
                    who = said
        except EOFError:
            end = "its process ended"
        process.kill()
        process.join()
        if left and end != "the budget is used up":
            if not who:
                raise GatesError(f"the measuring process does not begin: {end}")
            skipped.setdefault(next(iter(left)), {})[who] = end
    return list(left)


def built(stages: Sequence[str], on_cpu: bool, build_dir: Path) -> list[Stage]:
    """The libraries of ``NAME[,TOGGLE=VALUE…]``, compiled side by side."""
    tools, kind = find_toolchain(), "emulator" if on_cpu else "device"
    arch = None if on_cpu else probe().devices[0].arch

    def one(text: str) -> Stage:
        name, *toggles = text.split(",")
        task = find_task(name, dict(toggle.split("=", 1) for toggle in toggles), environ={})
        result = build(task, tools, build_dir, device_arch=arch, want={kind}, jobs=1)
        if failure := result.failure(kind):
            raise GatesError(f"{text}: {failure.sentence}", hint=failure.hint)
        return Stage(text, result.path(kind), task.entry, task.arguments or tuple(load(task.problem, task.folder).ARGUMENTS))

    with concurrent.futures.ThreadPoolExecutor(len(stages)) as pool:
        return list(pool.map(one, stages))


def is_wrong(who: str, one: Mapping[str, Any]) -> bool:
    return one.get("error", 0.0) > (TOLERANCE_FP8 if who.startswith("stage") else FORMS.get(who, PLAIN).tolerance)


def of_kernels(on_cpu: bool, build_dir: Path) -> Attention:
    """``attention`` of kernels/attention.py, all of its kernels compiled."""
    if on_cpu:
        return emulated_attention("attention_speed::attention", build_dir)
    from kernels.attention import attention

    major, minor = map(int, probe().devices[0].compute_capability.split("."))  # torch must not open the device before the fork
    capability = (major, minor)
    kernels = loader.KERNELS if capability == (9, 0) else (loader.ANYWHERE,)
    with concurrent.futures.ThreadPoolExecutor(2 * len(kernels)) as pool:
        list(pool.map(lambda what: loader.build(*what, capability), itertools.product(kernels, loader.DTYPES)))
    return attention


def line(row: Mapping[str, Any]) -> str:
    """A row in words: us (TFLOP/s) of each, and a wrong result's error; the kernel that ``attention`` picks, and the fastest."""
    found = []
    for who, one in row["contenders"].items():
        figure = f"{one['us']:.2f} us ({one['tflops']:.0f})" if "us" in one else one.get("failed", "not timed")
        wrong = f", WRONG by {one['error']:.2g}" if is_wrong(who, one) else ""
        found.append(f"{who} {figure}{wrong}")
    timed = {who: one["us"] for who, one in row["contenders"].items() if who in loader.KERNELS and "us" in one}
    if "picked" in row:
        found.append(f"picks {row['picked']}" + (f", fastest is {min(timed, key=timed.__getitem__)}" if timed else ""))
    return f"{row['name']}: " + "; ".join(found)


def parse(text: str) -> tuple[str, Shape]:
    """A shape by its name, or as B,H,Sq,Sk,D,causal. Raises GatesError."""
    numbers = SHAPES.get(text, text).split(",")
    try:
        batch, heads, queries, keys, width, causal = map(int, numbers)
    except ValueError:
        raise GatesError(f"--shape {text}: no such shape", hint=f"B,H,Sq,Sk,D,causal, or one of {', '.join(SHAPES)}") from None
    return text, (batch, heads, queries, keys, width, bool(causal))


@click.command()
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="JSON file of the figures.")
@click.option("--shape", "shapes", multiple=True, help="Name of the table, or B,H,Sq,Sk,D,causal. All of the table without it.")
@click.option("--stage", "stages", multiple=True, default=STAGES, show_default=True, help="NAME[,TOGGLE=VALUE…]")
@click.option("--other", "others", multiple=True, default=OTHERS, show_default=True, type=click.Choice([*OTHERS, "efficient"]))
@click.option("--attention", "with_attention", is_flag=True, help="attention(q, k, v) of kernels/attention.py, in each form, too.")
@click.option(
    "--budget-s", type=click.FloatRange(min=1.0), default=110.0, show_default=True, help="Rows that have not ended by then are left out."
)
@click.option("--build-dir", type=click.Path(file_okay=False, path_type=Path), default=Path("build"), show_default=True)
@click.option("--cpu", "on_cpu", is_flag=True, help="On the emulator: numbers, no times.")
def main(
    out: Path,
    shapes: Sequence[str],
    stages: Sequence[str],
    others: Sequence[str],
    with_attention: bool,
    budget_s: float,
    build_dir: Path,
    on_cpu: bool,
) -> None:
    """Measure, and print a line for each shape."""
    began, found = time.monotonic(), probe()
    data: dict[str, Any] = {"schema_version": 1, "torch": torch.__version__, "device": None, "rows": [], "left_out": []}

    def keep(row: dict[str, Any] | None = None) -> None:
        data["rows"] += [row] if row else []
        data["elapsed_s"] = round(time.monotonic() - began, 1)
        out.parent.mkdir(parents=True, exist_ok=True)
        jsonio.write(out, data)
        if row:
            click.echo(line(row))

    try:
        if not on_cpu:
            if not found.devices:
                raise GatesError(found.reason, hint="--cpu runs the stages on the emulator")
            data["device"] = found.devices[0].name
        rows = dict(parse(text) for text in shapes or SHAPES)
        attention = of_kernels(on_cpu, build_dir) if with_attention else None
        asked = Asked(tuple(built(stages, on_cpu, build_dir)), tuple(others), on_cpu, attention)
        data["built_s"] = round(time.monotonic() - began, 1)
        data["left_out"] = measured(asked, rows, began + budget_s, keep)
        keep()
    except GatesError as error:
        raise click.ClickException(str(error)) from None
    wrong = [who for row in data["rows"] for who, one in row["contenders"].items() if is_wrong(who, one)]
    if wrong or data["left_out"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
