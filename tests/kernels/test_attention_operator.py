"""kernels/attention.py as an operator and a drop-in, its table of the fastest kernels, and the folder copied into another project."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import attention_table
import pytest
import torch
from attention_kit import Case, attention_of, compiled, default_scale, general, over_bounds
from conftest import OnceASession
from places import ROOT
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import scaled_dot_product_attention

from gates.launch.c_launcher import Kernel
from kernels import loader
from kernels.attention import MEASURED, Attention, pick

DTYPES = (torch.float16, torch.bfloat16)
CASE = Case(1, 4, 2, 33, 50, layout="bshd")
BUILDS = [general("v9 whole", torch.float16), general("v10", torch.float16)]


@pytest.fixture(scope="module")
def attention(kept: OnceASession) -> Attention:
    return attention_of("attention_cpu", compiled(kept, "attention_operator", BUILDS)[1])


def tensors(case: Case = CASE, dtype: torch.dtype = torch.float16, device: str = "cpu") -> list[torch.Tensor]:
    return list(case.tensors(dtype, device))


def test_opcheck(attention: Attention) -> None:
    operator = torch.ops.kernel_gates.attention_cpu
    torch.library.opcheck(operator, tensors())
    torch.library.opcheck(operator, tensors(Case(1, 2, 2, 20, 40, 128)), {"causal": True, "softmax_scale": 0.2, "return_lse": True})
    torch.library.opcheck(operator, tensors(Case(1, 4, 2, 20, 20, layout="packed")), {"return_lse": True})


@pytest.mark.parametrize("layout", ["bhsd", "bshd", "packed"])
def test_a_compiler_knows_shape_dtype_and_strides_without_a_call(attention: Attention, layout: str) -> None:
    """The output has the order of q in memory, without gaps."""
    given = tensors(Case(2, 4, 2, 40, 40, layout=layout))
    out, lse = attention(*given, return_lse=True)
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(tensor) for tensor in given]
        fake_out, fake_lse = attention(*fakes, return_lse=True)
    assert (fake_out.shape, fake_out.dtype, fake_out.stride()) == (out.shape, out.dtype, out.stride())
    assert (fake_lse.shape, fake_lse.dtype) == (lse.shape, lse.dtype)
    order = sorted(range(4), key=lambda i: -given[0].stride(i))
    assert order == sorted(range(4), key=lambda i: -out.stride(i)) and out.permute(order).is_contiguous()


def test_torch_compile_takes_it_in_one_graph(attention: Attention) -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out, lse = attention(q * 2, k, v, causal=True, return_lse=True)
        return out + lse[..., None].half() + attention.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    given = tensors()
    assert torch.equal(torch.compile(function, backend="aot_eager", fullgraph=True)(*given), function(*given))


@pytest.mark.parametrize("causal", [False, True])
def test_the_drop_in_agrees_with_pytorch(attention: Attention, causal: bool) -> None:
    q, k, v = tensors()
    expected = scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal, enable_gqa=True)
    out = attention.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    assert (out.double() - expected).abs().max() <= 2e-3


@pytest.mark.parametrize(("arguments", "name"), [({"attn_mask": torch.ones(1)}, "attn_mask"), ({"dropout_p": 0.1}, "dropout_p")])
def test_what_is_not_there_is_named(attention: Attention, arguments: dict[str, Any], name: str) -> None:
    q, k, v = tensors()
    with pytest.raises(NotImplementedError, match=name):
        attention.scaled_dot_product_attention(q, k, v, enable_gqa=True, **arguments)
    with pytest.raises(NotImplementedError, match="requires_grad"):
        attention(q.requires_grad_(), k, v)
    with torch.no_grad():
        assert attention(q, k, v).shape == q.shape


def unaligned(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(tensor.numel() + 8, dtype=tensor.dtype)[1 : 1 + tensor.numel()].view(tensor.shape)


ROWS = "rows are not contiguous"
WRONG = {
    "device": (1, lambda t: t.to("meta"), ValueError, "k: on device meta, expected cpu"),
    "dtype": (0, lambda t: t.float(), TypeError, "q: dtype torch.float32, expected torch.float16 or torch.bfloat16"),
    "two dtypes": (1, lambda t: t.bfloat16(), TypeError, "k: dtype torch.bfloat16, expected torch.float16"),
    "rank": (0, lambda t: t[0], ValueError, r"q: shape \[4, 33, 64\], expected \[B, H, S, D\]"),
    "empty": (1, lambda t: t[:, :, :0], ValueError, r"k: shape \[1, 2, 0, 64\].* each size at least 1"),
    "keys": (2, lambda t: t[:, :, 1:], ValueError, r"v: shape \[1, 2, 49, 64\], expected \[1, 2, 50, 64\]"),
    "heads": (1, lambda t: torch.cat([t, t[:, :1]], 1), ValueError, r"k: shape \[1, 3, 50, 64\], expected \[1, a divisor of 4, S, 64\]"),
    "batch": (1, lambda t: torch.cat([t, t]), ValueError, r"k: shape \[2, 2, 50, 64\], expected \[1, "),
    "width": (0, lambda t: t[..., :32].contiguous(), ValueError, "q: head dimension 32, kernels are for 64 and 128"),
    "columns": (2, lambda t: t.transpose(2, 3).contiguous().transpose(2, 3), ValueError, f"v: {ROWS}"),
    "gaps": (2, lambda t: torch.empty(1, 2, 50, 68, dtype=t.dtype)[..., :64], ValueError, f"v: {ROWS}"),
    "expanded": (1, lambda t: t[:, :1].expand(-1, 2, -1, -1), ValueError, f"k: {ROWS}"),
    "unaligned": (0, unaligned, ValueError, f"q: {ROWS}"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_tensor_is_refused_by_name(attention: Attention, case: str) -> None:
    index, change, kind, message = WRONG[case]
    given = tensors()
    given[index] = change(given[index])
    if case == "device":  # never reaches the operator of the CPU
        from kernels.attention import check

        with pytest.raises(kind, match=message):
            check(*given, "cpu")
        return
    with pytest.raises(kind, match=message):
        attention(*given)


def test_heads_are_shared_only_if_asked_for(attention: Attention) -> None:
    with pytest.raises(ValueError, match="key: 2 heads, query has 4; enable_gqa=True"):
        attention.scaled_dot_product_attention(*tensors())


@pytest.mark.parametrize(
    ("case", "blocks"),
    [
        (Case(1, 8, 2, 1, 50), 2),
        (Case(1, 8, 2, 1, 50, layout="bshd"), 2),
        (Case(1, 8, 2, 3, 50), 2),
        (Case(1, 8, 2, 3, 50, layout="bshd"), 8),  # rows of one head are not next to those of the other
        (Case(1, 8, 2, 3, 50, causal=True), 8),  # a row's place is its query
        (Case(1, 8, 8, 3, 50), 8),
    ],
    ids=str,
)
def test_heads_that_share_keys_share_tiles(kept: OnceASession, case: Case, blocks: int) -> None:
    kernel = compiled(kept, "attention_operator", BUILDS)[0]
    attention_of("shared_tiles", kernel)(*tensors(case), causal=case.causal)
    assert [math.prod(launch["grid"]) for launch in kernel.launches] == [blocks]


def test_sizes_of_one_may_have_any_stride(attention: Attention) -> None:
    q, k, v = tensors(Case(1, 1, 1, 1, 5))
    odd = [tensor.as_strided(tensor.shape, (7, 3, tensor.stride(2) if tensor.shape[2] > 1 else 5, 1)) for tensor in (q, k, v)]
    assert torch.equal(attention(*odd), attention(q, k, v))


def test_the_table_is_what_was_recorded() -> None:
    recorded = attention_table.table(ROOT / "results" / "recorded")
    assert recorded == MEASURED, "run python scripts/attention_table.py"


def test_another_record_makes_another_table(tmp_path: Path) -> None:
    data = json.loads((ROOT / "results/recorded/h200/attention.json").read_text(encoding="utf-8"))
    data["rows"][0]["contenders"]["fp16_v10_hopper"]["us"] = 1.0
    data["rows"][1]["contenders"]["cudnn"]["us"] = 1.0  # is none of the kernels here
    (tmp_path / "h200").mkdir()
    (tmp_path / "h200" / "attention.json").write_text(json.dumps(data), encoding="utf-8")
    changed = [
        one["fastest"]
        for one, old in zip(attention_table.table(tmp_path)["9.0"]["rows"], MEASURED["9.0"]["rows"], strict=True)
        if one != old
    ]
    assert changed == ["fp16_v10_hopper"]


def test_the_fastest_kernel_of_each_measured_shape_is_picked() -> None:
    rows = MEASURED["9.0"]["rows"]
    for row in rows:
        sizes = [row[name] for name in ("heads", "queries", "keys", "width", "causal")]
        assert pick((9, 0), *sizes) == row["fastest"]
        assert pick((8, 9), *sizes) == pick((10, 0), *sizes) == loader.ANYWHERE
    assert {row["fastest"] for row in rows} == {"fp16_v9_pipeline", "fp16_v10_hopper", "fp16_v11_pingpong"}


def test_another_shape_gets_the_kernel_of_the_nearest() -> None:
    assert pick((9, 0), 2, 40, 30, 64, False) == pick((9, 0), 1, 32, 32, 64, False) == "fp16_v9_pipeline"
    assert pick((9, 0), 70, 4000, 5000, 64, True) == pick((9, 0), 64, 4096, 4096, 64, True)


@pytest.fixture
def vendored(tmp_path: Path) -> Path:
    """A project that has a copy of kernels/, and nothing else of this one."""
    shutil.copytree(ROOT / "kernels", tmp_path / "project" / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "project"


def in_project(project: Path, text: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"XDG_CACHE_HOME": str(project.parent / "cache"), **more}
    alone = "import sys\nfor name in ('gates', 'tasks'): sys.modules[name] = None  # an import of it fails\n"
    return subprocess.run([sys.executable, "-c", alone + text], cwd=project, env=environment, capture_output=True, text=True, check=False)


BUILD = """
import torch
from kernels import loader
print(loader.build("fp16_v10_hopper", torch.bfloat16, (9, 0)))
"""


def test_a_copy_of_the_folder_builds_without_the_engine(vendored: Path) -> None:
    done = in_project(vendored, BUILD)
    assert done.returncode == 0, done.stderr
    library = Path(done.stdout.strip())
    Kernel(library, "sdpa_forward")  # it loads and has the launcher
    assert library.is_relative_to(vendored.parent / "cache")
    first = library.stat().st_mtime_ns
    assert in_project(vendored, BUILD).stdout == done.stdout and library.stat().st_mtime_ns == first  # built once
    assert [path.name for path in library.parent.iterdir()] == [library.name]
    (vendored / "kernels" / "sdpa" / "config.cuh").open("a").write("#error on purpose\n")
    again = in_project(vendored, BUILD)  # a changed source is another build
    assert again.returncode == 1 and "nvcc failed for fp16_v10_hopper" in again.stderr and "on purpose" in again.stderr


def test_a_missing_compiler_is_named(vendored: Path) -> None:
    done = in_project(vendored, BUILD, CUDA_HOME=str(vendored / "none"))
    assert "RuntimeError: nvcc: not found in CUDA_HOME=" in done.stderr


def test_an_old_card_is_named() -> None:
    with pytest.raises(RuntimeError, match="device: compute capability 7.5, the kernels need 8.0 or newer"):
        loader.build(loader.ANYWHERE, torch.float16, (7, 5))


def test_the_loader_is_short() -> None:
    assert len((ROOT / "kernels" / "loader.py").read_text(encoding="utf-8").splitlines()) <= 100


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", ["bhsd", "bshd", "packed"])
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("causal", [False, True])
def test_the_device_is_within_what_rounding_explains(dtype: torch.dtype, layout: str, width: int, causal: bool) -> None:
    """By each kernel that the card has, not only the one that is picked."""
    major, minor = torch.cuda.get_device_capability()
    kernels = ("fp16_v9_pipeline", "fp16_v10_hopper", "fp16_v11_pingpong") if (major, minor) == (9, 0) else (loader.ANYWHERE,)
    for kernel in kernels:

        def run(_: str, *arguments: Any, kernel: str = kernel) -> None:
            loader.launch(kernel, *arguments)

        attention = Attention(f"kernel_gates::device_{kernel}", "cuda", run, torch.cuda.get_device_capability)
        for case in (Case(2, 8, 2, 300, 300, width, causal, layout), Case(1, 70, 70, 130, 130, width, causal, layout)):
            q, k, v = case.tensors(dtype, "cuda")
            out, lse = attention(q, k, v, causal=causal, return_lse=True)
            assert over_bounds(out, lse, q, k, v, causal, default_scale(q)) <= 1, kernel


@pytest.mark.gpu
def test_more_heads_than_a_grid_is_high_are_fine_in_batches() -> None:
    from kernels.attention import attention

    q, k, v = Case(33000, 2, 1, 1, 1).tensors(torch.float16, "cuda")
    assert torch.equal(attention(q, k, v), v.expand_as(q))  # of one key


@pytest.mark.gpu
def test_opcheck_on_the_device() -> None:
    import kernels.attention  # noqa: F401  registers it

    for case in (CASE, Case(1, 4, 4, 40, 40, 128, layout="packed")):
        torch.library.opcheck(torch.ops.attention_kernels.attention, tensors(case, device="cuda"), {"return_lse": True})


@pytest.mark.gpu
@pytest.mark.parametrize("case", [CASE, Case(1, 8, 8, 512, 512), Case(1, 32, 8, 16, 4096, 128, layout="bshd")], ids=str)
def test_a_graph_replays_it_on_new_values(case: Case) -> None:
    from kernels.attention import attention

    q, k, v = tensors(case, device="cuda")
    attention(q, k, v, return_lse=True)  # compiles, before the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, lse = attention(q, k, v, return_lse=True)
    for value in (1.0, 0.5):
        q.mul_(value)
        graph.replay()
        torch.cuda.synchronize()
        expected, expected_lse = attention(q, k, v, return_lse=True)
        assert torch.equal(out, expected) and torch.equal(lse, expected_lse)


@pytest.mark.gpu
def test_inductor_on_the_device() -> None:
    from kernels.attention import attention, scaled_dot_product_attention

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out, lse = attention(q * 2, k, v, causal=True, return_lse=True)
        return out + lse[..., None].half() + scaled_dot_product_attention(q, k, v, enable_gqa=True)

    given = tensors(device="cuda")
    torch.testing.assert_close(torch.compile(function, fullgraph=True)(*given), function(*given), atol=2e-3, rtol=2e-3)


@pytest.mark.gpu
def test_it_runs_on_the_current_stream() -> None:
    from kernels.attention import attention

    q, k, v = tensors(device="cuda")
    expected, whole, stream = attention(q, k, v), q.clone(), torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(20):
        with torch.cuda.stream(stream):
            q.zero_()
            torch.cuda._sleep(200_000)
            q.copy_(whole)
            out = attention(q, k, v)
        stream.synchronize()
        assert torch.equal(out, expected)


@pytest.mark.gpu
def test_a_copy_of_the_folder_runs_without_the_engine(vendored: Path) -> None:
    text = """
import torch
from kernels.attention import attention
q, k, v = torch.randn(3, 1, 64, 8, 64, dtype=torch.bfloat16, device="cuda").transpose(2, 3)
out, lse = attention(q, k, v, causal=True, return_lse=True)
expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)
assert (out.double() - expected).abs().max() < 2e-2, (out.double() - expected).abs().max()
"""
    done = in_project(vendored, text)
    assert done.returncode == 0, done.stderr
