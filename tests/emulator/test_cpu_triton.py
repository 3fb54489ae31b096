"""Triton's PTX on the CPU device: compiled for a target without a GPU, launched by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cpu_kit import DATA, device, line_of
from jit_kit import calls

from gates.emulator.cpu.loading import PtxModule

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")


@triton.jit
def row_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * columns + c, mask=c < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + tl.program_id(0) * columns + c, e / tl.sum(e, 0), mask=c < columns)


@triton.jit
def product_kernel(a, b, c, M, N, K, TILE: tl.constexpr, DEPTH: tl.constexpr):
    rows, columns, depth = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.program_id(1) * TILE + tl.arange(0, TILE), tl.arange(0, DEPTH)
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for k in range(0, K, DEPTH):
        x = tl.load(a + rows[:, None] * K + (k + depth)[None, :], mask=(rows < M)[:, None] & ((k + depth) < K)[None, :], other=0.0)
        y = tl.load(b + (k + depth)[:, None] * N + columns[None, :], mask=((k + depth) < K)[:, None] & (columns < N)[None, :], other=0.0)
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total, mask=(rows < M)[:, None] & (columns < N)[None, :])


def compiled(kernel, signature: dict[str, str], constants: dict[int, int]):  # noqa: ANN001, ANN201
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source = ASTSource(
        kernel,
        signature={**signature, **{kernel.arg_names[index]: "constexpr" for index in constants}},
        constexprs={(index,): value for index, value in constants.items()},
    )
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


def test_rows() -> None:
    made = compiled(row_kernel, {"x_ptr": "*fp32", "out_ptr": "*fp32", "columns": "i32"}, {3: 256})
    cpu, x = device(), np.random.default_rng(0).standard_normal((5, 200)).astype(np.float32)
    out = cpu.empty((5, 200), np.float32)
    PtxModule(cpu, made.asm["ptx"]).launch("row_kernel", (5,), (128,), cpu.array(x), out, 200, 0, 0, smem_bytes=made.metadata.shared)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    assert np.abs(out.get() - e / e.sum(1, keepdims=True)).max() <= 1e-6 and not cpu.findings()


@pytest.mark.parametrize(("kind", "dtype", "low", "high"), [("fp16", np.float16, 0.0, 1e-4), ("fp32", np.float32, 1e-4, 0.1)])
def test_products_of_halves_are_exact_and_those_of_floats_are_tf32(kind: str, dtype: type, low: float, high: float) -> None:
    made = compiled(product_kernel, {"a": f"*{kind}", "b": f"*{kind}", "c": "*fp32", "M": "i32", "N": "i32", "K": "i32"}, {6: 32, 7: 32})
    cpu, rng = device(), np.random.default_rng(1)
    a, b = rng.standard_normal((50, 40)).astype(dtype), rng.standard_normal((40, 36)).astype(dtype)
    c = cpu.empty((50, 36), np.float32)
    PtxModule(cpu, made.asm["ptx"]).launch(
        "product_kernel", (2, 2), (128,), cpu.array(a), cpu.array(b), c, 50, 36, 40, 0, 0, smem_bytes=made.metadata.shared
    )
    error = np.abs(c.get() - a.astype(np.float64) @ b.astype(np.float64)).max()
    assert low <= error <= high and not cpu.findings()


CASES = """
x = x[:700].reshape(7, 100)
a, b = x[:, :40].repeat(6, 1)[:40].contiguous(), x[:, 60:].repeat(6, 1)[:40].contiguous()
cases = {
    "softmax": ((x,), torch.softmax(x / 2, 1)),
    **dict.fromkeys(("softmax_as_an_operator", "softmax_on_a_full_device"), ((x,), torch.softmax(x / 2, 1))),
    "softmax_of_a_view": ((x,), torch.softmax(x[:, :50] / 2, 1)),
    "sum_by_atomics": ((x,), x.sum()),
    "matmul": ((a, b), a @ b),
    **dict.fromkeys(("softmax_without_a_mask", "sum_by_stores", "clusters"), ((x,), None)),
}
"""


def test_functions_of_triton_run_on_the_emulator_and_their_faults_are_found(tmp_path: Path) -> None:
    source = DATA / "triton_kernels.py"
    found = calls("triton", source, CASES, tmp_path)
    for name in ("softmax", "softmax_as_an_operator", "softmax_on_a_full_device", "softmax_of_a_view", "sum_by_atomics"):
        call = found[name]
        assert call.off < 1e-4 and not call.faults and len(call.kernels) == 1 and not call.said, name
    product = found["matmul"]
    assert 1e-5 < product.off < 0.1 and not product.faults and len(product.kernels) == 1, "a product of floats is one of TF32"
    bound, lost = found["softmax_without_a_mask"], found["sum_by_stores"]
    assert (bound.faults, bound.where) == (["out_of_bounds"], [f"{source}:{line_of(source, 'value = tl.load')}"])
    assert (lost.faults, lost.where) == (["race_global"], [f"{source}:{line_of(source, '# lost updates')}"])
    assert found["clusters"].said.startswith("not_emulated: the emulator has no clusters")
