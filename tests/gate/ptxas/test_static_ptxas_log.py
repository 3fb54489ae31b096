"""The ptxas log parser against recorded logs of toolkits 11.8 to 13.0, whole, disguised and cut."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
from places import TESTS

from gates.core.kernel_names import base_name, kernel_key, plain_name, without_parameters
from gates.core.records import to_json
from gates.gate.ptxas.log import PtxasLog, parse_log

DATA = TESTS / "data" / "ptxas"
MANIFEST = {entry["file"]: entry for entry in json.loads((DATA / "manifest.json").read_text())["logs"]}
SPILL = "cuda13.0_sm89_spill.log"


def read(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def figures(log: PtxasLog) -> list[dict]:
    return [{key: value for key, value in to_json(kernel).items() if key != "warnings"} for kernel in log.kernels]


def test_figures_without_a_kernel_belong_to_none() -> None:
    used = "ptxas info    : Used 8 registers, 4 bytes smem, 360 bytes cmem[0]\n"
    alone = parse_log(used)
    assert alone.kernels == alone.device_functions == ()
    entry = "ptxas info    : Compiling entry function '_Z1kv' for 'sm_90'\n"
    spills = "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    properties = "ptxas info    : Function properties for {}\n"
    log = parse_log(entry + properties.format("_Z1fv") + spills + used.replace("8", "99") + properties.format("_Z1kv") + spills + used)
    assert [kernel.registers for kernel in log.kernels] == [8] and [one.name for one in log.device_functions] == ["_Z1fv"], log


@pytest.mark.parametrize("name", sorted(MANIFEST))
def test_every_field_of_every_recorded_log(name: str) -> None:
    log, entry = parse_log(read(name)), MANIFEST[name]
    expected = [{key: value for key, value in kernel.items() if key != "demangled"} for kernel in entry["kernels"]]
    assert figures(log) == expected
    assert to_json(log.device_functions) == entry["device_functions"]
    assert to_json(log.linked) == entry.get("linked", [])
    assert [{**module.figures, **({"arch": module.arch} if module.arch else {})} for module in log.modules] == entry["modules"]
    assert list(log.other_lines) == entry["other_lines"]
    assert log.problems == ()


@pytest.mark.parametrize("name", sorted(MANIFEST))
def test_names_are_read_as_the_demangler_reads_them(name: str) -> None:
    for kernel in MANIFEST[name]["kernels"]:
        assert base_name(kernel["name"]) == plain_name(kernel["demangled"])


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="no c++filt")
@pytest.mark.parametrize("name", sorted(MANIFEST))
def test_recorded_readable_names(name: str) -> None:
    names = [kernel["name"] for kernel in MANIFEST[name]["kernels"]]
    done = subprocess.run(["c++filt", *names], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [kernel["demangled"] for kernel in MANIFEST[name]["kernels"]]


@pytest.mark.parametrize("disguise", ["crlf", "colour", "noise", "ci"])
@pytest.mark.parametrize("name", sorted(MANIFEST))
def test_line_ends_colours_and_noise_change_nothing(name: str, disguise: str) -> None:
    lines = read(name).splitlines()
    if disguise == "crlf":
        text = "\r\n".join(lines) + "\r\n"
    elif disguise == "colour":
        text = "".join(f"\x1b[1m{line}\x1b[0m\n" for line in lines)
    elif disguise == "noise":
        text = "".join(f'{line}\nk.cu(3): Warnung: Variable "x" wird nicht verwendet\n警告: 32 registers\n' for line in lines)
    else:
        text = "".join(f"2026-11-28T00:00:00.123Z {line}\n" if line.startswith("ptxas info") else f"{line}\n" for line in lines)
    assert figures(parse_log(text)) == figures(parse_log(read(name)))
    assert parse_log(text).problems == ()


@pytest.mark.parametrize("name", [SPILL, "cuda13.0_sm89_templates.log", "cuda11.8_sm80_nvrtc_spill.log"])
def test_a_log_cut_anywhere_gives_no_wrong_figure(name: str) -> None:
    text, whole = read(name), {kernel.name: kernel for kernel in parse_log(read(name)).kernels}
    for end in range(1, len(text) - 1):
        log = parse_log(text[:end])
        complete = [kernel for kernel in log.kernels if kernel.registers is not None and kernel.stack is not None]
        for kernel in complete:
            assert to_json(kernel) | {"warnings": []} == to_json(whole[kernel.name]) | {"warnings": []}, text[:end][-60:]
        if not text[:end].endswith("\n") and len(complete) < len(whole):
            seen = re.findall(r"Compiling entry function '(\S+)' for", text[:end])
            assert log.problems or not seen or len(complete) == len(seen), text[:end][-60:]


def test_cut_inside_the_second_kernel() -> None:
    text = read(SPILL)
    assert parse_log(text[: text.index("Used 32")]).problems == ("log ends inside the block of heavy (sm_89)",)
    assert "light" in parse_log(text[:400]).problems[0]
    assert parse_log(text[: text.index("'heavy' for 'sm_89'") + 3]).problems == ("log ends inside a line after the block of light",)
    usage = text[: text.index(", 380 bytes cmem")]
    assert parse_log(usage).problems, "shared memory may have followed"


def test_a_block_without_spill_figures_is_a_problem_not_zero() -> None:
    text = "".join(line for line in read(SPILL).splitlines(keepends=True) if "456 bytes stack frame" not in line)
    log = parse_log(text)
    assert log.kernels[1].spill_stores is None
    assert log.problems == ("log ends inside the block of heavy (sm_89)",)
    swapped = parse_log(re.sub(r"    0 bytes stack frame.*\n", "", read(SPILL)))
    assert swapped.problems == ("the block of light (sm_89) has no spill figures",)


def test_warnings_belong_to_the_kernel_they_name() -> None:
    log = parse_log(
        read("cuda13.0_sm89_bounds.log") + "ptxas warning : Double is not supported in function 'impossible'. Demoting to float\n"
    )
    assert {kernel.name: len(kernel.warnings) for kernel in log.kernels} == {"fine": 0, "impossible": 1}
    assert [one.kernel for one in log.advice] == ["impossible"]  # the bound that is ignored
    spilling = parse_log(read("cuda13.0_sm89_spill_warnings.log"))
    assert [one.kernel for one in spilling.advice] == ["heavy", "heavy"] and not any(kernel.warnings for kernel in spilling.kernels)


def test_relocatable_code_is_seen() -> None:
    text = read("cuda13.0_sm89_rdc_nvlink.log")
    assert parse_log(text).relocatable
    assert parse_log("".join(line for line in text.splitlines(keepends=True) if not line.startswith("nvlink"))).relocatable
    for name in MANIFEST:
        assert parse_log(read(name)).relocatable == ("rdc" in name)


def test_keys_do_not_depend_on_the_folder() -> None:
    here = "_ZN39_GLOBAL__N__9131ba9c_7_anon_cu_d49f61306hiddenEPf"
    assert kernel_key(here) == kernel_key(here.replace("9131ba9c", "d8e4ea1f")) == "_ZN12_GLOBAL__N_16hiddenEPf"
    static = "__nv_static_23__746c5f90_4_s_cu__Z2twf__ZN34_GLOBAL__N__746c5f90_4_s_cu__Z2twf3hidEPf"
    assert kernel_key(static) == "_ZN12_GLOBAL__N_13hidEPf" and base_name(static) == "hid"
    assert kernel_key("_Z9row_scaleIfLi64ELb1EEvPKT_PS0_if") != kernel_key("_Z9row_scaleIfLi32ELb0EEvPKT_PS0_if")


def test_names_of_languages_in_python_are_those_of_their_functions() -> None:
    warp, numba = "add_kernel_4eaa6e32_cuda_kernel_forward", "_ZN6kernel12_3clocals_3e10add_kernelB2v1B8cw51cXTLE5ArrayIfLi1E1CE"
    assert base_name(warp) == plain_name(warp) == base_name(numba) == plain_name(numba) == "add_kernel"
    assert plain_name("kernel::_3clocals_3e::add_kernel[abi:v1][abi:cw51cXTL](Array<float, 1, C>)") == "add_kernel", "as tools write it"


@pytest.mark.parametrize(
    ("written", "plain", "short"),
    [
        ("void gate::v2::apply<Scale>(Scale, float*)", "apply", "gate::v2::apply<Scale>"),
        ("(anonymous namespace)::hidden(float*)", "hidden", "(anonymous namespace)::hidden"),
        ("void row_scale<double, 128, true>(double const*, double*, int, float)", "row_scale", "row_scale<double, 128, true>"),
        ("k", "k", "k"),
        ("void k<(A|B)>(float*)", "k", "k<(A|B)>"),
    ],
)
def test_names_as_people_write_them(written: str, plain: str, short: str) -> None:
    assert plain_name(written) == plain
    assert without_parameters(written) == short


def test_another_name_of_the_tool_hides_nothing() -> None:
    """Triton's copy calls itself ptxas-blackwell."""
    text = (
        "ptxas-blackwell info    : Compiling entry function 'k' for 'sm_90'\n"
        "ptxas-blackwell info    : Function properties for k\n"
        "    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads\n"
        "ptxas-blackwell info    : Used 16 registers, used 0 barriers\n"
    )
    (kernel,) = parse_log(text).kernels
    assert (kernel.registers, kernel.spill_stores, kernel.spill_loads) == (16, 16, 24)
