"""Problems of kernelbot: what generate_input gives is taken apart and put together again; buffers among it are outputs."""

from __future__ import annotations

import csv
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from places import TESTS

from gates.cli.guard import guard
from gates.cli.main import cli
from gates.core.errors import GatesError
from gates.core.python_path import add_folder
from gates.importers import bulk, folder, kernelbot
from gates.task.load import load_task
from gates.task.problem import Problem

SUITE = TESTS / "data" / "imports" / "kernelbot"
BLEND, SUBMISSION = SUITE / "blend", SUITE / "submission.py"
OWN = ("reference", "utils", "task", "data_form", "submission", "blend", "blend_submission", "blend_reference_reference")


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The task ``blend``, whose modules are of this test alone."""
    shapes = {"shapes": {"test1": {}, "benchmark": {}}, "largest": 0.01, "mean": 0.001, "honest": 1e-6, "format": "float32"}
    monkeypatch.setattr(folder, "bounds", lambda *_, **__: {**shapes, "rule_over_bound": None, "needs": {}, "untried": {}})
    before = list(sys.path)
    yield folder.write(kernelbot.load(BLEND, SUBMISSION), tmp_path, "blend", 60).task
    sys.path[:] = before
    for name in [name for name in sys.modules if name.partition(".")[0] in OWN]:
        del sys.modules[name]


def problem_of(task: Path) -> ModuleType:
    import importlib

    sys.path.insert(0, str(task.parent))
    return importlib.import_module(f"{task.name}.problem")


def outputs_of(task: Path, inputs: dict[str, Any], code: str = "") -> Any:
    """What kernel.py gives, as the gates call it without a device, with ``code`` in the submission's place."""
    from gates.launch.entry_point import Function, Place

    if code:
        (task / "submission.py").write_text(code)
    add_folder(task)
    return Function(task / "kernel.py", "run", Place(on_cpu=True))(*inputs.values())


def over_bound(problem: ModuleType, inputs: dict[str, Any], shape: dict[str, int], got: Any) -> float:
    """The largest error over the bound."""
    judged = Problem(problem)
    return float(((got.double() - judged.reference(inputs, shape)["out"]).abs() / judged.error_bound(inputs, shape)["out"]).max())


def test_a_task_has_the_tests_and_the_last_benchmark(imported: Path) -> None:
    loaded = load_task(imported, environ={})
    assert (loaded.kind, loaded.entry, loaded.gates["performance"]["shape"]) == ("python", "run", "benchmark")
    problem = problem_of(imported)
    assert problem.SHAPES["test2"] == {"steps": 3, "width": 40, "case_number": 2} and problem.SHAPES["benchmark"]["width"] == 128
    assert problem.data.RULE == (1e-4, 1e-3) and "eval.py" not in [path.name for path in imported.iterdir()]
    origin = {one["kept"]: one["source"] for one in json.loads((imported / "origin.json").read_text())["files"]}
    assert origin["utils.py"] == "tools.py" and (imported / "utils.py").read_bytes() == (SUITE / "tools.py").read_bytes()


def test_structured_values_are_not_for_packed_numbers_with_scale_factors(tmp_path: Path, imported: Path) -> None:
    suite = spoiled(tmp_path, "blend/reference.py", "    return rows, start", "    # torch.float4_e2m1fn_x2\n    return rows, start")
    assert "OUT_OF_CONTRACT = ('" in kernelbot.load(suite / "blend", None).problem["problem_data.py"]
    assert problem_of(imported).OUT_OF_CONTRACT == ()


def test_a_buffer_for_the_output_is_no_input_and_an_input_that_one_test_ignores_is_none(imported: Path) -> None:
    problem = problem_of(imported)
    assert problem._buffers() == {"data_4"}, "data_1 has the output's size, and the smallest test ignores it"
    inputs = problem.make_inputs(problem.SHAPES["test2"], 0, "cpu")
    assert list(inputs) == ["form", "data_0_item0", "data_0_item1", "data_0_item2", "data_1", "data_2_gain"]
    again, other = (problem.make_inputs(problem.SHAPES["test2"], seed, "cpu") for seed in (0, 1))
    assert inputs["data_1"].equal(again["data_1"]) and not inputs["data_1"].equal(other["data_1"])


@pytest.mark.parametrize(
    ("change", "right"),
    [
        (("", ""), True),
        (("torch.stack(rows).sum(dim=0) * weights", "torch.stack(rows).mean(dim=0) * weights"), False),
        (("    return out", "    out.zero_()\n    return out"), False),
        (("    return out", "    out[5] *= 1.01\n    return out"), False),
        (("    return out", "    return torch.full_like(out, out.mean())"), False),
        (("out[...] = ", "total.clone()[...] = "), False),
    ],
    ids=["right", "mean of rows", "zeros", "one element off", "the mean", "buffer left as it was"],
)
def test_the_limits_tell_right_from_wrong(imported: Path, change: tuple[str, str], right: bool) -> None:
    problem, code = problem_of(imported), SUBMISSION.read_text().replace(*change)
    shape = problem.SHAPES["test2"]
    inputs = problem.make_inputs(shape, 3, "cpu")
    assert (over_bound(problem, inputs, shape, outputs_of(imported, inputs, code)) <= 1.0) == right


def test_a_reference_that_widens_its_inputs_asks_for_no_float64(imported: Path) -> None:
    import torch

    problem = problem_of(imported)
    inputs = problem.make_inputs(problem.SHAPES["test3"], 0, "cpu")
    assert problem.honest(inputs, problem.SHAPES["test3"])["out"].dtype is torch.float32
    assert problem.backends(inputs, problem.SHAPES["test3"])["eager"]().dtype is torch.float64


def spoiled(tmp_path: Path, file: str, *change: str) -> Path:
    """The suite, with one text replaced."""
    suite = Path(shutil.copytree(SUITE, tmp_path / "suite"))
    text = (suite / file).read_text()
    assert change[0] in text
    (suite / file).write_text(text.replace(*change))
    return suite


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("blend/task.yml", 'lang: "py"', 'lang: "cu"', "only submissions in Python"),
        ("blend/task.yml", "config:", "multi_gpu: true\nconfig:", "one device"),
        ("blend/task.yml", '"name": "reference.py"', '"name": "other.py"', "files has no reference.py"),
        ("blend/task.yml", '"name": "utils.py"', '"name": "../utils.py"', "not the name of a file"),
        ("blend/task.yml", '{"steps": 1, "width": 24, "seed": 11, "plain": True, "bias": 0, "kind": "normal"}', "7", "7 is not a test"),
        ("blend/task.yml", "../tools.py", "../missing.py", "missing.py: No such file"),
        ("blend/task.yml", '"source": "task.py"', '"source": "/etc/passwd"', "'/etc/passwd' leaves the suite"),
        ("blend/task.yml", '"source": "task.py"', '"source": "../../../notes.py"', "'../../../notes.py' leaves the suite"),
        ("blend/task.yml", '"source": "task.py"', '"source": "../notes.txt"', "'../notes.txt' leaves the suite"),
        ("blend/task.yml", '"source": "task.py"', '"source": "outside.py"', "'outside.py' leaves the suite"),
        ("blend/task.yml", '"source": "task.py"', '"source": "a\\0b"', "not a plain path"),
        ("blend/task.yml", '"source": "task.py"', '"source": "."', "not a plain file"),
        ("blend/task.yml", '"name": "task.py"', '"name": ""', "'' is not the name of a file"),
        ("blend/task.yml", '"name": "task.py"', '"name": ".."', "'..' is not the name of a file"),
        ("blend/task.yml", '"name": "task.py"', '"name": "a\\0b"', "is not the name of a file"),
        ("blend/task.yml", '"name": "task.py"', '"name": "a\\\\b"', "is not the name of a file"),
        ("blend/task.yml", '"name": "task.py"', '"name": "utils.py"', "'utils.py' appears twice"),
        ("blend/task.yml", 'config:\n  main: "eval.py"', "config: [1]", "config is [1], not a mapping"),
        ("blend/task.yml", 'config:\n  main: "eval.py"', "config: text", "config is 'text', not a mapping"),
        ("blend/task.yml", "tests:", "tests: 5\nothers:", "tests is 5, not a list"),
        ("blend/task.yml", "benchmarks:", "benchmarks: 7\nothers:", "benchmarks is 7, not a list"),
        *(
            ("blend/reference.py", "rtol=1e-3", f"rtol={value}", "rtol is not a finite number")
            for value in ("'x'", "None", "1j", "1e400", "9" * 400, "0x" + "f" * 5000)
        ),
        ("blend/reference.py", "def ref_kernel", "def reference_kernel", "does not define ref_kernel"),
        ("submission.py", "def custom_kernel", "def kernel", "does not define custom_kernel"),
    ],
)
def test_what_is_no_kernelbot_problem_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, old: str, new: str, said: str
) -> None:
    suite, made = spoiled(tmp_path, file, old, new), tmp_path / "made"
    (suite / "notes.txt").write_text("")
    (suite / "blend" / "outside.py").symlink_to(folder.ADAPTERS / "__init__.py")
    command = ["import", "kernelbot", str(suite / "blend"), str(suite / "submission.py"), "--dir", str(made)]
    assert guard(lambda: cli.main(command, standalone_mode=False)) == 2
    error = capsys.readouterr().err
    assert said in error and error.startswith("error: ") and "Traceback" not in error and not made.exists()


def test_the_files_of_an_import_are_not_replaced_by_those_of_the_problem(tmp_path: Path, imported: Path) -> None:
    suite = Path(shutil.copytree(SUITE, tmp_path / "suite"))
    text, of_problem = (suite / "blend" / "task.yml").read_text(), {"task.py", "utils.py", "reference.py"}
    made = {path.name for path in imported.iterdir()} - of_problem
    assert {"kernel.py", "problem.py", "problem_needs.py", "task.yaml", "build.py", "origin.json", "submission.py"} <= made
    for name in made:
        (suite / "blend" / "task.yml").write_text(text.replace('"name": "task.py"', f'"name": "{name}"'))
        with pytest.raises(GatesError, match="is a file that the import makes"):
            kernelbot.load(suite / "blend", None)


def test_a_problem_may_have_files_of_the_folders_of_its_suite(tmp_path: Path) -> None:
    group = tmp_path / "problems" / "group"
    shutil.copytree(SUITE, group)
    (group / "tools.py").rename(tmp_path / "problems" / "tools.py")
    (group / "blend" / "notes.txt").write_text("text")
    (group / "blend" / "near.py").symlink_to("../../tools.py")
    text = (group / "blend" / "task.yml").read_text().replace("../tools.py", "../../tools.py")
    more = "files:\n  - {name: notes.txt, source: notes.txt}\n  - {name: near.py, source: ./near.py}\n"
    (group / "blend" / "task.yml").write_text(text.replace("files:\n", more))
    (tmp_path / "link").symlink_to(group / "blend")
    for place in (group / "blend", tmp_path / "link"):
        files = kernelbot.load(place, None).reference.files
        assert files["utils.py"] == files["near.py"] == (SUITE / "tools.py").read_text() and files["notes.txt"] == "text"


def test_tolerances_that_the_code_computes_and_whole_ones_are_let_through(tmp_path: Path) -> None:
    suite = spoiled(tmp_path, "blend/reference.py", "rtol=1e-3", "rtol=0")
    assert "RULE = (0.0001, 0.0)" in kernelbot.load(suite / "blend", None).problem["problem_data.py"]
    (suite / "blend" / "reference.py").write_text((BLEND / "reference.py").read_text().replace("rtol=1e-3", "rtol=10 ** -3"))
    assert "RULE = None" in kernelbot.load(suite / "blend", None).problem["problem_data.py"]


def test_an_object_among_the_inputs_is_named() -> None:
    import torch

    sys.path.insert(0, str(folder.ADAPTERS))
    try:
        import kernelbot_data
    finally:
        sys.path.remove(str(folder.ADAPTERS))
    with pytest.raises(TypeError, match="generate_input gives a object"):
        kernelbot_data.taken_apart((1, object()))
    packed = torch.arange(6, dtype=torch.uint8).reshape(2, 3).t().view(torch.float4_e2m1fn_x2)
    form, tensors = kernelbot_data.taken_apart([packed])
    assert tensors["data_item0"].clone().equal(packed.view(torch.uint8)), "as bytes, which torch copies"
    (again,) = kernelbot_data.built(form, tensors.values())
    assert again.dtype is packed.dtype and again.stride() == packed.stride()
    assert kernelbot_data.built(kernelbot_data.taken_apart({3: [None, "text", (True,)]})[0], ()) == {3: [None, "text", (True,)]}


def test_a_suite_is_imported_with_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    solutions = tmp_path / "solutions" / "blend" / "correct"
    solutions.mkdir(parents=True)
    shutil.copy(SUBMISSION, solutions / "ref.py")
    (solutions / "notes.py").write_text("pass\n")
    (solutions / "folder.py").mkdir()
    os.mkfifo(solutions / "pipe.py")
    (solutions / "broken.py").symlink_to("nowhere.py")
    command = ["import", "kernelbot", str(SUITE), "--solutions", str(tmp_path / "solutions"), "--dir", str(tmp_path / "made")]
    assert guard(lambda: cli.main(command, standalone_mode=False)) == 0, capsys.readouterr()
    (row,) = csv.DictReader((tmp_path / "made" / "imports.csv").open())
    assert (row["problem"], row["solution"], row["task"]) == ("blend", "blend/correct/ref.py", "kernelbot_blend_correct_ref")
    made = load_task(tmp_path / "made" / row["task"], environ={})
    assert made.shapes == ("test1", "test2", "test3", "benchmark")


def test_a_submission_that_cannot_be_read_is_a_refused_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "blend").mkdir()
    (tmp_path / "blend" / "large.py").write_bytes(b"#" * (2**20 + 1))
    monkeypatch.setattr(folder, "MAX_SOURCE_BYTES", 2**20)
    (row,), _ = bulk.run(kernelbot, SUITE, tmp_path, tmp_path / "made", 60)
    assert (row.status, row.solution) == ("refused", "blend/large.py") and "larger than 1 MiB" in row.reason


def test_the_problems_own_code_is_its_solution() -> None:
    side = kernelbot.load(BLEND, None).candidate
    assert side.sources == ["kernel.py", "reference.py"] and "utils.py" in side.files
    with pytest.raises(GatesError, match=r"task\.yml"):
        kernelbot.load(SUITE, None)


def test_products_of_float4_matrices_run_on_the_cpu() -> None:
    import torch

    from gates.emulator.cpu_as_device import pretended

    rows, columns, inner = 130, 96, 128
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)
    codes = [torch.randint(0, 16, (size, inner), generator=torch.Generator().manual_seed(size)) for size in (rows, columns)]
    factors = [torch.randint(1, 5, (size, inner // 16), generator=torch.Generator().manual_seed(size)).float() for size in (rows, columns)]
    packed = [(code[:, ::2] | code[:, 1::2] << 4).to(torch.uint8).view(torch.float4_e2m1fn_x2) for code in codes]

    def tiled(scale: torch.Tensor) -> torch.Tensor:
        found = torch.zeros(-(-scale.shape[0] // 128), scale.shape[1] // 4, 32, 4, 4)
        for row in range(scale.shape[0]):
            for block in range(scale.shape[1]):
                found[row // 128, block // 4, row % 32, row % 128 // 32, block % 4] = scale[row, block]
        return found.flatten().to(torch.float8_e4m3fn)

    exact = [values[code] * scale.double().repeat_interleave(16, dim=1) for code, scale in zip(codes, factors, strict=True)]
    given = packed[0], packed[1].t(), *map(tiled, factors)
    with pretended():
        found = torch._scaled_mm(*given, out_dtype=torch.float32)
        assert found.equal((exact[0] @ exact[1].t()).float())
        with pytest.raises(NotImplementedError, match="use_fast_accum"):
            torch._scaled_mm(*given, use_fast_accum=True)
