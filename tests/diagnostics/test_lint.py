"""``gates lint-task``: planted faults of each sort are all named at once, and sound tasks have none."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from places import ROOT

from gates.cli.guard import guard
from gates.cli.main import cli
from gates.diagnostics.lint import _signature, _toggles, lint
from gates.task.load import KINDS, load_task, task_folders
from gates.task.scaffold import new_task, next_rung


def made(tmp_path: Path, kind: str, *changes: tuple[str, str], file: str = "task.yaml") -> Path:
    folder = new_task("mine", kind, tmp_path)[0]
    text = (folder / file).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / file).write_text(text)
    return folder


def place_in(folder: Path, start: str) -> str:
    """File and line of the first line of task.yaml that begins with ``start``."""
    path = folder / "task.yaml"
    return f"{path}:{next(number for number, line in enumerate(path.read_text().splitlines(), 1) if line.startswith(start))}"


@pytest.fixture
def unrun(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process that runs the problem."""
    monkeypatch.setattr("gates.diagnostics.lint._problem", lambda task: ())


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_task_has_no_fault(tmp_path: Path, kind: str, unrun: None) -> None:
    assert lint(made(tmp_path, kind)) == [] == lint(tmp_path / "mine_eager")


def test_the_shipped_stages_have_no_fault(unrun: None) -> None:
    ladders = yaml.safe_load((ROOT / "docs" / "internals" / "ladder.yaml").read_text(encoding="utf-8"))
    shapes = {name: rung["shape"] for ladder in (ladders["fp8"], ladders["fp16"]) for name, rung in ladder["rungs"].items()}
    found = {folder.name: lint(folder) for folder in task_folders()}
    for name, shape in shapes.items():
        if shape not in load_task(ROOT / "tasks" / name, environ={}).shapes:  # the emulator would take hours for 2048 keys
            timed = found[name].pop()
            assert f"{shape} is timed, and only timing compares its results" in timed
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "task",
    [path.parent for root in ("examples", "tests/tasks") for path in sorted((ROOT / root).rglob("task.yaml"))],
    ids=lambda path: path.name,
)
def test_the_examples_use_their_toggles(task: Path) -> None:
    assert list(_toggles(load_task(task, environ={}))) == []


def test_all_findings_at_once(tmp_path: Path, unrun: None) -> None:
    folder = made(
        tmp_path,
        "cuda",
        ("entry: silu_mul_launch", "entry: silu_launch"),
        ("kernels: [silu_mul_kernel]", "kernels: [other_kernel]"),
        ("  ncu: {max: {local_loads: 0, local_stores: 0}}\n", ""),
        ("sass: {forbid: [local_memory]}", "sass: {}"),
        ("baseline: mine_eager", "# none"),
    )
    (folder / "runner.py").unlink()
    found = "\n".join(lint(folder))
    for text in (
        f'{place_in(folder, "entry:")}: entry: no source defines an extern "C" function silu_launch',
        f"{place_in(folder, 'kernels:')}: kernels: no source defines other_kernel",
        "gates.ncu has no limits",
        "gates.sass has no limits",
        "performance needs a baseline",
        "runner.py: missing",
    ):
        assert text in found


def test_limits_that_compare_with_a_baseline_need_one(tmp_path: Path, unrun: None) -> None:
    limits = ("  ncu: {max: {local_loads: 0", "  size: {max_growth_pct: 0}\n  ncu: {rises: [tensor_pipe], steady: {}, max: {local_loads: 0")
    assert lint(made(tmp_path / "with", "cuda", limits)) == []
    found = lint(made(tmp_path / "without", "cuda", limits, ("baseline: mine_eager", "# none")))
    for key in ("size.max_growth_pct", "ncu.rises"):
        assert any(f"gates.{key} needs a baseline" in text for text in found)
    assert not any("steady" in text or "max_bytes" in text for text in found)


def test_a_title_that_nobody_wrote(tmp_path: Path, unrun: None) -> None:
    (folder,) = next_rung("next_one", load_task(made(tmp_path, "cuda"), environ={}))
    (found,) = lint(folder)
    assert found.startswith(f"{place_in(folder, 'title:')}: title: still the placeholder 'next_one: say what it does that mine does not'")
    path = folder / "task.yaml"
    path.write_text(path.read_text().replace("say what it does that mine does not", "two threads an element"))
    assert lint(folder) == []


def test_several_faults_of_the_yaml_itself(tmp_path: Path, unrun: None) -> None:
    folder = made(
        tmp_path,
        "cuda",
        ("name: mine\n", "name: other\n"),
        ("[kernel.cu]", "[no.cu]"),
        ("baseline: mine_eager", "baseline: nothing"),
        ("local_loads: 0", "local_load: 0"),
    )
    found = lint(folder)
    assert len(found) == 4 and all(str(folder / "task.yaml") + ":" in text for text in found)
    for text in ("unknown name 'local_load'", "name is 'other'", "source 'no.cu' does not exist", "baseline 'nothing' is not a task"):
        assert text in "\n".join(found)


@pytest.mark.parametrize("kind", ["triton", "python", "torch-extension"])
def test_an_entry_that_no_source_has(tmp_path: Path, kind: str, unrun: None) -> None:
    found = lint(made(tmp_path, kind, ("entry: silu_mul", "entry: silu_add")))
    assert len(found) == 1 and "silu_add" in found[0]


def test_a_binding_by_another_name(tmp_path: Path, unrun: None) -> None:
    (found,) = lint(made(tmp_path, "torch-extension", ('.def("silu_mul"', '.def("silu"'), file="binding.cpp"))
    assert "no source binds a function silu_mul" in found and "bound are silu" in found


def test_a_source_that_is_not_python(tmp_path: Path, unrun: None) -> None:
    found = lint(made(tmp_path, "python", ("def silu_mul", "def silu_mul(x"), file="kernel.py"))
    assert len(found) == 1 and "kernel.py:" in found[0] and "not Python" in found[0]


def test_an_entry_in_a_comment_is_none(tmp_path: Path, unrun: None) -> None:
    found = lint(
        made(
            tmp_path,
            "cuda",
            ('extern "C" int silu_mul_launch(', '// extern "C" int silu_mul_launch(\nextern "C" int other('),
            file="kernel.cu",
        )
    )
    assert len(found) == 1 and "silu_mul_launch" in found[0]


def test_a_toggle_that_no_source_uses(tmp_path: Path, unrun: None) -> None:
    folder = made(tmp_path, "cuda", ("{CTA_THREADS: 256}", "{CTA_THREADS: 256, UNROL: 4, DEEP: 1}"))
    source = folder / "kernel.cu"
    source.write_text('#include "one.cuh"\n// UNROL is in a comment, UNROLL is another name\n' + source.read_text())
    (folder / "one.cuh").write_text('#include "two.cuh"\n')
    (folder / "two.cuh").write_text("constexpr int kDeep = DEEP;\n")
    (found,) = lint(folder)
    said = "no source uses UNROL, nor does a header beside the sources, so it changes nothing"
    assert found == f"{place_in(folder, 'toggles:')}: toggles: {said}"


def test_a_toggle_behind_a_python_division_is_used(tmp_path: Path, unrun: None) -> None:
    folder = made(tmp_path, "python", ("entry: ", "toggles: {BLOCK: 2, OTHER: 1}\nentry: "))
    source = folder / "kernel.py"
    source.write_text(source.read_text() + '\n\nimport os\n\nHALF = 8 // int(os.environ.get("BLOCK", 2))\n')
    (found,) = lint(folder)
    assert "toggles: no source uses OTHER" in found


def test_the_problem_is_run_once(tmp_path: Path) -> None:
    folder = made(tmp_path, "python", ("max_abs_err: 1.0e-5, mean_abs_err: 1.0e-6", "max_abs_err: 50, mean_abs_err: 5"))
    (found,) = lint(folder)
    assert "an output of zeros keeps these limits on shape small" in found
    made_wrong = folder / "task.yaml"
    made_wrong.write_text(
        made_wrong.read_text().replace("shapes: [small, mission]", "shapes: [small, huge]").replace("shape: mission", "shape: small")
    )
    assert lint(folder) == [f"{place_in(folder, 'shapes:')}: shapes: problem mine_problem has no shape 'huge' (known: mission, odd, small)"]


@pytest.mark.parametrize("misspelt", ["shapes: [small, missoin]", "shape: missoin"])
def test_a_misspelt_shape_is_one_finding_at_its_line(tmp_path: Path, misspelt: str) -> None:
    folder = made(tmp_path, "python", (misspelt.replace("missoin", "mission"), misspelt))
    (found,) = lint(folder)
    key, start = ("shapes", "shapes:") if "shapes" in misspelt else ("gates.performance.shape", "  performance:")
    assert found == f"{place_in(folder, start)}: {key}: problem mine_problem has no shape 'missoin' (did you mean mission?)"


@pytest.mark.parametrize(
    ("new", "said"),
    [("raise OSError('no data')", "{line}: reference raises OSError"), ("return None", " reference gives NoneType")],
    ids=["raises", "gives nothing"],
)
def test_the_problems_file_is_named_once(tmp_path: Path, new: str, said: str) -> None:
    folder, problem = made(tmp_path, "python"), tmp_path / "mine_problem.py"
    problem.write_text(problem.read_text().replace('return {"out": x / (1 + torch.exp(-x)) * y}', new))
    (found,) = lint(folder)
    line = next((number for number, text in enumerate(problem.read_text().splitlines(), 1) if new in text), None)
    assert found.startswith(f"{problem}:{said.format(line=line)}") and found.count(str(problem)) == 1


def test_a_launcher_with_another_number_of_arguments_and_a_rough_reference(tmp_path: Path) -> None:
    folder = made(tmp_path, "cuda", ("int64_t n, void* stream", "int64_t n, /* one, more */ int64_t m, void* stream"), file="kernel.cu")
    problem = tmp_path / "mine_problem.py"
    problem.write_text(problem.read_text().replace(".double()", ".float()"))
    arguments, rough = sorted(lint(folder), key=lambda text: "float32" in text)
    assert "silu_mul_launch takes 8 arguments, and is called with 7: x, y, out, N, stream, error, error_bytes" in arguments
    assert f"{problem}: reference gives out in float32" in rough


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("const int64_t* x,", "takes `const int64_t* x`, and x is a tensor of float32"),
        ("__half *__restrict__ out,", "takes `__half *__restrict__ out`, and out is a tensor of float32"),
        ("float x,", "takes `float x`, and x is a tensor of float32"),
        ("const int64_t* n,", "takes `const int64_t* n`, and N is a number (int64_t)"),
        ("float n,", "takes `float n`, and N is int64_t"),
        ("const float* out,", "takes `const float* out`, and out is an output, which the kernel writes"),
        ("void const* out,", "takes `void const* out`, and out is an output, which the kernel writes"),
        ("const float* y,", "takes `const float* y`, and x is the argument at this place: the order is x, y, out, N"),
        ("int64_t X,", "takes `int64_t X`, and N is the argument at this place: the order is x, y, out, N"),
        ("float* const __restrict__ out,", ""),
        ("const float* input,", ""),
        ("const uint32_t* x,", ""),
        ("void* x,", ""),
        ("const float4* x,", ""),
        ("int n,", ""),
    ],
)
def test_a_launcher_that_takes_another_argument(tmp_path: Path, written: str, told: str) -> None:
    before = {"out": "float* out,", "n": "int64_t n,", "X": "int64_t n,"}.get(written.rpartition(" ")[2].rstrip(","), "const float* x,")
    folder = made(tmp_path, "cuda", (f"{before} ", f"{written} "), file="kernel.cu")
    found = _signature(
        load_task(folder, environ={}), {"x": "float32 tensor", "y": "float32 tensor", "out": "float32 tensor, output", "N": "int"}
    )
    assert [line.partition("silu_mul_launch ")[2] for line in found] == ([told] if told else [])


def test_a_parameter_is_told_at_its_own_line(tmp_path: Path) -> None:
    launcher = "int silu_mul_launch(\n    const float* y, /* of\n    two lines */\n    const float* x, const float* out,"
    folder = made(tmp_path, "cuda", ("int silu_mul_launch(const float* x, const float* y, float* out,", launcher), file="kernel.cu")
    first = next(number for number, line in enumerate((folder / "kernel.cu").read_text().splitlines(), 1) if line.endswith("/* of"))
    second = first + 2
    assert [line.partition(": silu_mul_launch takes ") for line in lint(folder)] == [
        (f"{folder / 'kernel.cu'}:{at}", ": silu_mul_launch takes ", told)
        for at, told in (
            (first, "`const float* y`, and x is the argument at this place: the order is x, y, out, N"),
            (second, "`const float* x`, and y is the argument at this place: the order is x, y, out, N"),
            (second, "`const float* out`, and out is an output, which the kernel writes"),
        )
    ]


def test_an_unknown_chip_and_arguments_that_nothing_provides_have_their_lines(tmp_path: Path) -> None:
    folder = made(tmp_path, "cuda", ("arch: [sm_89, sm_90]", "arguments: [x, y, o, N]\narch: [sm_89, sm_123]"))
    lines = (folder / "task.yaml").read_text().splitlines()
    at = {key: next(number for number, line in enumerate(lines, 1) if line.startswith(f"{key}:")) for key in ("arch", "arguments")}
    chip, arguments = lint(folder)
    assert f"task.yaml:{at['arch']}: arch: sm_123 is no chip that is known here" in chip
    assert f"task.yaml:{at['arguments']}: `arguments` of task.yaml name o, which nothing provides (did you mean out?" in arguments


def test_the_exit_codes(tmp_path: Path, unrun: None, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made(tmp_path, "python")
    assert guard(lambda: cli.main(["lint-task", str(folder)], standalone_mode=False)) == 0
    for name, hint in (("", "tasks in it: mine, mine_eager"), ("no_task", "name a task folder; "), ("stage4_mma", "did you mean /")):
        (tmp_path / name).mkdir(exist_ok=True)
        assert guard(lambda name=name: cli.main(["lint-task", str(tmp_path / name)], standalone_mode=False)) == 2
        assert f"\nhint: {hint}" in capsys.readouterr().err
    (folder / "build.py").unlink()
    assert guard(lambda: cli.main(["lint-task", str(folder)], standalone_mode=False)) == 1
    assert "1 finding\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("max_abs_err: 1.0e-5", "max_abs_err: .nan", ".nan is not a finite number"),
        ("seeds: [0, 1, 2]", "seeds: [0]\nseeds: [1]", "key 'seeds' appears twice"),
        ("seeds: [0, 1, 2]", "seeds: [0", "not valid YAML"),
        ("seeds: [0, 1, 2]", "seeds: zero", "seeds: must be a list, not 'zero'"),
    ],
)
def test_what_task_yaml_can_not_hold_is_a_finding(
    tmp_path: Path, old: str, new: str, says: str, unrun: None, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made(tmp_path, "cuda", (old, new))
    assert guard(lambda: cli.main(["lint-task", str(folder)], standalone_mode=False)) == 1
    out, err = capsys.readouterr()
    assert out.startswith(f"{folder / 'task.yaml'}:") and says in out and out.endswith("\n1 finding\n") and not err
    assert guard(lambda: cli.main(["run", str(folder)], standalone_mode=False)) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_script_for_the_old_import_path_is_told_its_new_lines(tmp_path: Path, unrun: None) -> None:
    folder = made(tmp_path, "python")
    (folder / "runner.py").write_text("from gates.run.runner import main\n\nmain(__file__)\n")
    assert lint(folder) == [
        f"{folder / 'runner.py'}: imports gates.run, which is no longer for tasks; write `from gates.task_script import run` and "
        f"`run(__file__)`"
    ]


def test_limits_that_no_output_of_its_format_can_keep_and_a_timed_shape_that_correctness_leaves_out(tmp_path: Path) -> None:
    folder = made(tmp_path, "cuda", ("shapes: [small, mission]", "shapes: [small]"))
    problem = tmp_path / "mine_problem.py"
    text = problem.read_text()
    problem.write_text(
        text.replace('torch.empty(shape["N"], device=device)', 'torch.empty(shape["N"], dtype=torch.float16, device=device)').replace(
            "DIMS =", "SIZES ="
        )
    )
    found = lint(folder)
    assert len(found) == 4, found  # and that the launcher writes floats
    line = next(number for number, text in enumerate((folder / "task.yaml").read_text().splitlines(), 1) if "max_abs_err" in text)
    assert any(
        f"task.yaml:{line}: gates.correctness.max_abs_err: rounding the exact result to float16 already costs 0.00" in one
        and "set about 0.00" in one
        for one in found
    )
    assert any("mission is timed, and only timing compares its results" in one for one in found)
    assert any('no DIMS: declare which sizes the kernel must accept, e.g. DIMS = {"N": range(1, 4001)}' in one for one in found)
