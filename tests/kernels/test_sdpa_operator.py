"""The kernel as a torch operator: checks, opcheck, streams."""

from __future__ import annotations

import pytest
import torch
from sdpa_kit import STAGES, emulated, on_device, problem, source_of, task_of

from gates.core.errors import GatesError
from gates.task.scaffold import new_task
from tasks.libraries import library_of
from tasks.problems.sdpa_fp8_operator import load_operator

NAMES = ("q", "k", "v", "q_scale", "k_scale", "v_scale")
SHAPE = problem.SHAPES["odd"]


@pytest.fixture(scope="module")
def operator(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdpa-operator")
    emulated(folder, "stage4", task_of("stage4_mma")["toggles"], source_of("stage4_mma"))
    return load_operator(folder / "stage4.so", "kernel_gates::sdpa_fp8_cpu", "cpu")


def arguments(device: str = "cpu") -> dict[str, torch.Tensor]:
    inputs = problem.make_inputs(SHAPE, 0, device)
    return {name: inputs[name] for name in NAMES}


def test_default_scale_is_one_over_root_d(operator):
    tensors = arguments()
    expected = problem.reference({**problem.make_inputs(SHAPE, 0, "cpu")}, SHAPE)["out"]
    out = operator(*tensors.values())
    assert out.dtype == torch.float16
    assert (out.double() - expected).abs().max() <= 2e-3
    assert torch.equal(operator(*tensors.values(), 0.125), out)
    assert not torch.equal(operator(*tensors.values(), softmax_scale=0.5), out)


def test_opcheck(operator):
    torch.library.opcheck(operator, tuple(arguments().values()))
    torch.library.opcheck(operator, tuple(arguments().values()), {"softmax_scale": 0.2})


def replaced(name: str, change) -> list[torch.Tensor]:
    tensors = arguments()
    tensors[name] = change(tensors[name])
    return list(tensors.values())


def offset_by_one(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(tensor.numel() + 16, dtype=tensor.dtype)[1 : 1 + tensor.numel()].view(tensor.shape)


REFUSED = {
    "device": ("v", lambda t: t.to("meta"), ValueError, "v: on device meta"),
    "dtype": ("q", lambda t: t.view(torch.float8_e4m3fn), TypeError, "q: dtype torch.float8_e4m3fn.*view E4M3 tensors as uint8"),
    "scale's dtype": ("k_scale", lambda t: t.double(), TypeError, "k_scale: dtype torch.float64, expected torch.float32"),
    "rank": ("q", lambda t: t[0], ValueError, "q: 3 dimensions"),
    "shape": ("k", lambda t: t[:, :, 1:].contiguous(), ValueError, r"k: shape \[1, 2, 64, 64\], expected \[1, 2, 65, 64\]"),
    "scale's shape": ("v_scale", lambda t: t.flatten(), ValueError, r"v_scale: shape \[2\], expected \[1, 2\]"),
    "strided": ("v", lambda t: t.transpose(1, 2).contiguous().transpose(1, 2), ValueError, "v: not contiguous"),
    "unaligned": ("k", offset_by_one, ValueError, "k: address not aligned to 16 bytes"),
    "empty": ("q", lambda t: t[:, :, :0], ValueError, r"q: shape \[1, 2, 0, 64\] has no elements"),
    "head dimension": ("q", lambda t: t[..., :32].contiguous(), ValueError, "q: head dimension 32, this kernel is for 64"),
}


VIEWS = {
    "heads beside tokens": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "slice of a packed qkv": lambda t: torch.stack([t, t, t], dim=3)[:, :, :, 1],
    "every second element": lambda t: torch.repeat_interleave(t, 2, dim=3)[..., ::2],
}


@pytest.mark.parametrize("length", [64, 65])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_a_view_is_refused_by_name_at_any_length(operator, name, view, length):
    inputs = problem.make_inputs({**SHAPE, "S": length}, 0, "cpu")
    inputs[name] = VIEWS[view](inputs[name])
    with pytest.raises(ValueError, match=f"{name}: not contiguous"):
        operator(*(inputs[argument] for argument in NAMES))


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_and_names_the_argument(operator, case):
    name, change, kind, message = REFUSED[case]
    if case == "device":  # a meta tensor never reaches the kernel through the dispatcher
        from tasks.problems.sdpa_fp8_operator import check_arguments

        with pytest.raises(kind, match=message):
            check_arguments({**arguments(), name: change(arguments()[name])}, "cpu")
        return
    with pytest.raises(kind, match=message):
        operator(*replaced(name, change))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_a_library_for_a_device_takes_one():
    with pytest.raises(GatesError, match="no CUDA device") as caught:
        library_of("stage4")
    assert caught.value.hint == 'library_of("stage4", "cpu") builds it for the CPU emulator, to try it out'


def test_a_library_that_does_not_compile_is_an_error(tmp_path):
    folder = new_task("broken", "cuda", tmp_path)[0]
    (folder / "kernel.cu").write_text("#error on purpose\n")
    with pytest.raises(GatesError, match=r"broken: .* failed .*on purpose") as caught:
        library_of(str(folder), "cpu", tmp_path / "build")
    assert caught.value.hint


@pytest.fixture(scope="module")
def device_operators(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdpa-operator-device")
    return {stage: load_operator(on_device(folder, stage), f"kernel_gates::sdpa_fp8_{stage}") for stage in STAGES}


@pytest.mark.gpu
@pytest.mark.parametrize("stage", STAGES)
def test_opcheck_on_the_device(device_operators, stage):
    torch.library.opcheck(device_operators[stage], tuple(arguments("cuda").values()))


@pytest.mark.gpu
def test_cpu_tensors_are_refused_by_the_device_operator(device_operators):
    with pytest.raises(ValueError, match="q: on device cpu, this library runs on cuda"):
        device_operators["stage3_cp_async"](*arguments().values())


@pytest.mark.gpu
@pytest.mark.parametrize("stage", STAGES)
def test_runs_on_the_current_stream(device_operators, stage):
    expected = problem.reference(problem.make_inputs(SHAPE, 0, "cpu"), SHAPE)["out"]
    tensors = arguments("cuda")
    q = tensors["q"].clone()
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(50):
        with torch.cuda.stream(stream):
            tensors["q"].zero_()
            torch.cuda._sleep(200_000)
            tensors["q"].copy_(q)
            out = device_operators[stage](*tensors.values())
        stream.synchronize()
        assert (out.cpu().double() - expected).abs().max() <= 2e-3
