"""The documentation is true: generated parts are fresh, commands and targets that it names exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from places import ROOT
from runs_kit import PLACES, RECORDED

from gates.cli.main import cli
from gates.core import jsonio
from gates.core.schema import kinds, schema_path
from gates.diagnostics.explain import MODULES, all_codes, codes_of, explain
from gates.evidence.packed_runs import opened
from gates.evidence.run_directory import list_runs
from gates.review.insights.insights import insights_of
from gates.verify.run import verify_run

DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = (".py", ".yaml", ".yml", ".h", ".cuh", ".cu", ".cpp", ".j2")

import evidence_page  # noqa: E402
import make_schemas  # noqa: E402
import update_docs  # noqa: E402


def test_the_readme_is_made_from_the_recorded_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert update_docs.readme(text, RECORDED) == text, "run: python scripts/docs/update_docs.py"


def test_a_changed_number_would_be_noticed() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    changed = text.replace("98.3 % interval 1.", "98.3 % interval 2.")
    assert changed != text and update_docs.readme(changed, RECORDED) == text


def test_the_readme_s_times_are_those_of_the_recorded_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    own, best = [], []
    for stage in ("fp16_v9_pipeline", "stage4_mma"):
        found = next(row for row in update_docs.ladder_page.context_times(list_runs(RECORDED / "h200" / stage)[-1]) if row[0] == "mission")
        own.append(f"{found[1]:.2f} us")
        best.append(f"{min(found[2].values()):.2f} us")
    assert (
        f"(fp16_v9_pipeline) takes {own[0]}, FP8 attention (stage4_mma) {own[1]}," in text and f"(cuDNN): {best[0]} and {best[1]}." in text
    )


@pytest.mark.parametrize("gate", update_docs.gate_pages.NAMES)
def test_the_page_of_a_gate_is_fresh(gate: str) -> None:
    page = (ROOT / "docs" / "gates" / f"{gate}.md").read_text(encoding="utf-8")
    assert update_docs.gate_page(page, gate) == page, "run: python scripts/docs/update_docs.py"


def test_the_page_of_all_gates_is_fresh() -> None:
    page = (ROOT / "docs" / "gates" / "README.md").read_text(encoding="utf-8")
    assert update_docs.gates_index(page) == page, "run: python scripts/docs/update_docs.py"


def test_the_first_run_page_is_fresh() -> None:
    page = (ROOT / "docs" / "start" / "first-run.md").read_text(encoding="utf-8")
    assert update_docs.first_run_page(page, RECORDED) == page, "run: python scripts/docs/update_docs.py"


def test_the_table_of_honest_kernels_is_fresh_and_none_is_refused() -> None:
    page = (ROOT / "docs" / "gates" / "correctness.md").read_text(encoding="utf-8")
    assert update_docs.correctness_page(page, RECORDED) == page, "run: python scripts/docs/update_docs.py"
    rows = [line.split("|") for line in update_docs.tried_table(RECORDED).splitlines()[2:]]
    assert len(rows) >= 4 and all(int(row[3]) > 280 and int(row[4]) == 0 for row in rows)


def test_the_emulators_figures_are_those_that_were_recorded(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "internals" / "emulator.md").read_text(encoding="utf-8")
    assert update_docs.emulator(page, RECORDED) == page, "run: python scripts/docs/update_docs.py"
    other = tmp_path / "cpu" / "speed.json"
    other.parent.mkdir()
    other.write_text('{"million_a_second": {"adds": {"f32": 2.5, "s32": 12.0}, "mma": {"f16": 1.0}}}')
    gates = dict.fromkeys(("ptxas", "sass", "correctness", "sanitizer"), "pass")
    row = {"cases": 600, "launches": 1250, "gates": gates}
    refused = {**row, "gates": {**gates, "correctness": "fail"}}
    jsonio.write(other.with_name("stages.json"), {"stages": {"stage0": row, "stage1": refused, "fp16_v5": row}})
    shown = update_docs.emulator(page, tmp_path)
    assert "| adds | 2.5 to 12 |" in shown and "| fp8 | 2 | 1,200 | 2,500 | 1 |" in shown and "| fp16 | 1 | 600 | 1,250 | 1 |" in shown


def test_the_insights_page_is_fresh_and_its_claim_holds() -> None:
    page = (ROOT / "docs" / "guide" / "insights.md").read_text(encoding="utf-8")
    assert update_docs.insights_page(page, RECORDED) == page, "run: python scripts/docs/update_docs.py"
    stage2, stage3 = (insights_of(list_runs(RECORDED / "h100" / stage)[-1]) for stage in ("stage2_wmma_pv", "stage3_cp_async"))
    claim = f"ceiling was {stage2.steps[0].ceiling_us:.2f} us; stage 3, which takes that step, runs in {stage3.attempts[-1].p50_us:.2f} us"
    assert claim in page and stage2.steps[0].rule == "memory_wait"


def test_the_recorded_sweep_is_shown_as_it_is() -> None:
    page = (ROOT / "docs" / "guide" / "sweep.md").read_text(encoding="utf-8")
    assert update_docs.sweeps(page, RECORDED) == page, "run: python scripts/docs/update_docs.py"
    sweep = update_docs.sweep_page.recorded_sweep(RECORDED)
    assert len(sweep.devices) == 1 and sweep.winner == sweep.incumbent


def test_the_command_reference_is_fresh() -> None:
    assert (ROOT / "docs" / "guide" / "commands.md").read_text(encoding="utf-8") == update_docs.command_reference(), (
        "run: python scripts/docs/update_docs.py"
    )


def test_the_page_of_the_evidence_is_fresh() -> None:
    page = (ROOT / "docs" / "internals" / "evidence.md").read_text(encoding="utf-8")
    assert update_docs.evidence_files(page, RECORDED) == page, "run: python scripts/docs/update_docs.py"


def test_every_field_of_the_evidence_has_a_meaning_and_every_meaning_a_field() -> None:
    tables = evidence_page.Fields().tables()
    assert set(tables) == set(kinds())
    assert "| `sha256` | `{text}` |" in tables["manifest"]


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_named_commands_and_targets_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9]+)(?=[a-z0-9 ]*:)", (ROOT / "Makefile").read_text(), re.M))
    for task in (path.parent.name for path in (ROOT / "tasks").glob("*/task.yaml")):
        targets.add(task if task.startswith("fp16_") else task.split("_")[0])
    for name in re.findall(r"(?:`|\$ |^    )make (?:[A-Z]+=\S+ )*([a-z][a-z0-9_]*)\b", text, re.M):
        assert name in targets, f"make {name}"
    for name in re.findall(r"(?:`|\$ |^    )gates ([a-z][a-z-]*)", text, re.M):
        assert name in cli.commands, f"gates {name}"


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", path.read_text(encoding="utf-8")):
        page = path.parent / target if target else path
        assert page.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
            assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}, f"{target}#{anchor}"


def test_pages_named_in_sources_exist() -> None:
    sources = [
        path
        for name in ("gates", "scripts", "studies", "tests", "tasks", "kernels", ".github")
        for path in (ROOT / name).rglob("*")
        if path.suffix in SOURCES
    ]
    for path in sources:
        for page in re.findall(r"\bdocs/[\w/-]+\.(?:md|yaml|png|svg)", path.read_text(encoding="utf-8")):
            assert (ROOT / page).is_file(), f"{path.relative_to(ROOT)} names {page}"


def test_files_that_a_recipe_touches_exist() -> None:
    named = re.findall(r"`((?:gates|scripts|tests|docs|tasks|kernels)/[\w./-]*)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert len(named) > 20 and [name for name in named if not (ROOT / name).exists()] == []


def test_every_command_ends_in_an_example() -> None:
    for name, command in cli.commands.items():
        assert re.search(rf"Example: gates {name}\b.*\Z", (command.help or "").strip()), name


@pytest.mark.parametrize("group", [[], ["import"]])
@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_summary_is_cut_off(group: list[str], width: int) -> None:
    listed = CliRunner().invoke(cli, [*group, "--help"], terminal_width=width).output.partition("Commands:\n")[2].splitlines()
    assert len(listed) > 2 and [line for line in listed if line.endswith("...") or len(line) > width] == []


@pytest.mark.parametrize("gate", MODULES)
def test_every_code_is_explained(gate: str) -> None:
    for code, known in codes_of(gate).items():
        assert code.startswith(f"{gate}.") and len(known.meaning) > 12, code


@pytest.mark.parametrize("gate", MODULES)
def test_a_code_comes_with_its_gate(gate: str) -> None:
    code = next(iter(codes_of(gate).values()))
    about = explain(gate).partition("\n\nreason codes:")[0]
    assert explain(code) == f"{code}\n{code.explanation}\n\n{gate}: {about}" and len(about) > 200


def test_the_words_of_a_verdict_are_explained() -> None:
    from gates.render.console import MARKS

    for word in (*MARKS.values(), *MARKS, "weak", "hold", "noise_floor", "threshold", "interval", "limit", "cold L2"):
        assert len(explain(word)) > 30, word


def test_the_recorded_runs_are_sound_and_merge() -> None:
    from gates.review.decide import decide_run

    for stage in ("stage1_wmma_qk", "stage2_wmma_pv", "stage3_cp_async"):
        (run,) = list_runs(RECORDED / "h100" / stage)
        assert verify_run(run) == []
        assert decide_run(run)[0].value == "merge"


def test_every_code_of_a_recorded_verdict_is_known() -> None:
    from gates.evidence.run_directory import Verdict, read_record

    known = all_codes()
    for place in PLACES:
        verdict: Verdict = read_record(Verdict, opened(place), "verdict.json")
        codes = {result.code for result in verdict.gates} | {
            check.code for result in verdict.gates for check in result.checks if check.code
        }
        assert codes <= set(known), codes - set(known)


def test_schemas_come_from_the_records() -> None:
    for name, cls in make_schemas.RECORDS.items():
        assert schema_path(name).read_text() == make_schemas.text(cls), "run: python scripts/docs/make_schemas.py"


def test_compare_works_on_recorded_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "scripts/compare_results.py",
            "results/recorded/h100/stage1_wmma_qk",
            "results/recorded/h100/stage2_wmma_pv",
            "--out",
            str(tmp_path),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# merge: stage2_wmma_pv against stage1_wmma_qk" in done.stdout
    assert (tmp_path / "stage1_wmma_qk..stage2_wmma_pv" / "compare.json").is_file()


def test_the_names_in_writing_a_task_are_all_that_there_are() -> None:
    from gates.gate.sass.evidence import CLASSES
    from gates.hardware.ncu_metrics import METRICS

    text = (ROOT / "docs" / "guide" / "writing-a-task.md").read_text(encoding="utf-8")
    assert update_docs.task_page(text, RECORDED) == text, "run: python scripts/docs/update_docs.py"
    listed = text[text.index("Names for `require`") : text.index("A wrong key, type, name")]
    assert set(re.findall(r"[a-z][a-z_]+", listed)) >= {*CLASSES, *METRICS}


def test_the_languages_are_those_of_the_registry() -> None:
    text = (ROOT / "docs" / "start" / "import.md").read_text(encoding="utf-8")
    assert update_docs.import_page(text, RECORDED) == text, "run: python scripts/docs/update_docs.py"


def test_the_task_yaml_in_writing_a_task_is_the_example() -> None:
    text = (ROOT / "docs" / "guide" / "writing-a-task.md").read_text(encoding="utf-8")
    shown = re.sub(r" +#.*", "", text.split("```yaml\n")[1].split("```")[0])
    assert shown == (ROOT / "tests" / "tasks" / "saxpy_fast" / "task.yaml").read_text(encoding="utf-8")
