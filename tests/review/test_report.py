"""`gates report`: what the page says, that nothing in evidence becomes markup, and how it does in a browser."""

from __future__ import annotations

import dataclasses
import html.parser
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from browser_kit import Browser, find_browser
from pages_kit import poisoned
from runs_kit import RUN, sign
from test_history import COUNT, RECORDED, STAGES, compared, many_runs, time_row

from gates.core.errors import GatesError
from gates.core.records import Check, Decision, GateResult, Status, shown
from gates.evaluation.evolution.record import Evolution, Refused, read_evolution
from gates.evidence.run_directory import opened
from gates.gate.correctness.error_map import AxisSpan, ErrorMap, WrongElement
from gates.gate.correctness.evidence import Case, CorrectnessEvidence
from gates.render.report import html as page_html
from gates.render.search.evolution import tree_html
from gates.review.history import Entry, history
from gates.review.report.ladders import ladders
from gates.review.report.run_view import Page, RunView, view
from gates.review.report.write import MOST_RUNS, page_of, write_report

pytest.importorskip("matplotlib")

HOSTILE = '"><script>alert(1)</script>\x1b\u202e<img src=x onerror=alert(1)>$\\frac{</svg></style>{{ 7*7 }}'


class Reader(html.parser.HTMLParser):
    """The elements, attributes and text of a page; says where a tag is not closed."""

    VOID = {"meta", "link", "br", "hr", "img", "input", "path", "use"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def check_whole(text: str) -> Reader:
    """The page, well-formed, without scripts, handlers or anything from outside, and with unique ids."""
    reader = Reader(text)
    assert not reader.open
    names = {tag for tag, _ in reader.tags}
    assert not names & {"script", "iframe", "object", "embed", "img", "form", "base", "foreignobject", "a:script"}
    for tag, attributes in reader.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            if name in ("href", "src", "xlink:href", "action"):
                assert value is not None and (value.startswith("#") or value == "data:,"), (tag, value)
            assert "url(" not in (value or "").replace("url(#", ""), value
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    linked = {str(attributes["href"])[1:] for _, attributes in reader.tags if str(attributes.get("href", "")).startswith("#")}
    assert linked <= set(ids), linked - set(ids)
    return reader


@pytest.fixture(scope="module")
def stage2() -> str:
    return page_html(page_of(RECORDED, [str(STAGES[2])]))


@pytest.fixture(scope="module")
def seen() -> RunView:
    """The view of a real, sound run; tests change it."""
    return view(STAGES[2])


def page(*runs: RunView, entries: tuple[Entry, ...] = ()) -> str:
    return page_html(Page("0.1.0", "2026-11-28T00:00:00+00:00", runs, 0, ladders(entries), entries))


def error_map() -> ErrorMap:
    """Rows 32 to 63 of one of two heads wrong, and a stripe of the columns."""
    axes = (AxisSpan("H", 2, 1, ((1, 1),)), AxisSpan("S", 128, 32, ((32, 63),)), AxisSpan("D", 64, 16, ((0, 3), (16, 19)), (16, 0, 3)))
    return ErrorMap("|error| > 0.002", 16384, 512, 0, 0, 0, 1.0, 32, 256, 0.7, 900.0, axes, (WrongElement((1, 32, 0), 0.0312, 0.118),))


def failed(run: RunView, found: ErrorMap | None, **changes: Any) -> RunView:
    """The run with a failed case; the verdict beside it stays."""
    evidence: CorrectnessEvidence = run.evidence["correctness"]
    case = evidence.cases[0]
    output = dataclasses.replace(case.outputs[0], error_map=found, **changes)
    cases = (dataclasses.replace(case, outputs=(output,)), *evidence.cases[1:])
    crashed = Case("tail", 0, "odd", "crash", "killed by SIGSEGV while running the kernel")
    return dataclasses.replace(run, evidence={**run.evidence, "correctness": dataclasses.replace(evidence, cases=(*cases, crashed))})


def test_a_recorded_run(stage2: str) -> None:
    words = check_whole(stage2).words
    sentence = next(result.sentence for result in compared(STAGES[2]).gates if result.gate == "performance")
    row = time_row(STAGES[2])
    gains = [(speed := compared(run).speed) and 1 + speed.speedup_pct / 100 for run in STAGES[1:3]]
    for part in (
        "merge stage2_wmma_pv against stage1_wmma_qk",
        "every gate passed or is declared not applicable.",
        "NVIDIA H100 80GB HBM3",
        "ptxas pass 2 compiled kernels within budget",
        f"performance pass {sentence}",
        "ncu.pass",
        "time of a launch (us)",
        "SM clock (MHz)",
        "noise floor 1 ± 0.00",  # the timing chart
        "Kernel time: 12 rows",
        f"cold p50 us {shown(row.baseline)} {shown(row.candidate)} ",
        "p50, cold L2 us 20.35 11.95 -41.3 % registers per thread 96 123 +27",
        "tensor_pipe % ",
        "mission seed 0",
        "Set-up: limits, shapes, tools",
        "max_registers 128",
        "stage0_scalar to stage3_cp_async, NVIDIA H100 80GB HBM3",
        f"{row.candidate:.2f} us, {gains[1]:.2f}x over the stage before, {gains[0] * gains[1]:.2f}x in all",  # the ladder
        f"History {COUNT} runs found",
        "stage2_wmma_pv, cpu: ",
        "start of the run (UTC)",
    ):
        assert part in words, part
    assert (
        words.index("merge stage2_wmma_pv")
        < words.index("ptxas pass")
        < words.index("Timing")
        < words.index("Ladder Newest")
        < words.index(f"History {COUNT}")
    )


def test_it_is_one_page_for_any_screen_and_reader(stage2: str) -> None:
    tags = Reader(stage2).tags
    metas = [attributes for tag, attributes in tags if tag == "meta"]
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in metas
    assert any("default-src 'none'" in str(meta.get("content")) for meta in metas)
    assert "prefers-color-scheme: dark" in stage2 and "@media print" in stage2 and ":focus-visible" in stage2
    assert len([tag for tag, _ in tags if tag == "h1"]) == 1
    for tag, attributes in tags:
        if tag == "svg":
            assert attributes["role"] == "img" and attributes["aria-label"]
        if attributes.get("class") == "scroll":
            assert attributes["tabindex"] == "0" and attributes["aria-label"]
    assert tags.index(("a", {"class": "skip", "href": "#main"})) < [tag for tag, _ in tags].index("main")
    assert "#000000" not in stage2.split("</style>")[1]  # black is the page's text colour


def test_the_newest_run_of_each_task_and_device(tmp_path: Path) -> None:
    many_runs(tmp_path, 15)
    out = write_report(tmp_path, (), tmp_path / "all.html")
    text = out.read_text(encoding="utf-8")
    reader = check_whole(text)
    assert len([tag for tag, _ in reader.tags if tag == "article"]) == 5
    assert (
        "5 runs Sorted by task p50 speed-up share of the limit decision task" in reader.words
        and "History 15 runs found" in reader.words
        and "stage2_wmma_pv, cpu: 3 runs" in reader.words
    )
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["all.html"]


def test_more_tasks_than_a_page_holds(tmp_path: Path) -> None:
    for number in range(MOST_RUNS + 2):
        run = tmp_path / f"task{number}" / "run"
        run.mkdir(parents=True)
        info = json.loads((RUN / "run.json").read_text())
        info["task"]["name"] = f"task{number}"
        info["started"] = f"2026-01-{number + 1:02}T00:00:00+00:00"
        (run / "run.json").write_text(json.dumps(info))
        shutil.copy(RUN / "verdict.json", run)
    words = check_whole(page_html(page_of(tmp_path, ()))).words
    assert "The newest runs of 2 more tasks and devices are in the history alone" in words
    assert words.count("not to be believed") == MOST_RUNS  # these runs have no manifest


def test_a_run_that_was_edited_shows_its_faults_and_no_evidence(tmp_path: Path) -> None:
    run = Path(shutil.copytree(STAGES[2], tmp_path / "run"))
    (run / "sass.json").write_text((run / "sass.json").read_text().replace("HMMA", "FMA"))
    words = check_whole(page_html(page_of(tmp_path / "none", [str(run)]))).words
    assert "not sound stage2_wmma_pv" in words and "recorded decision (merge) is not to be believed" in words
    assert "sass.json was changed after the run" in words and "Kernel time" not in words and "time of a launch" not in words


def test_a_forged_pass_is_not_sound(tmp_path: Path) -> None:
    run = Path(shutil.copytree(STAGES[2], tmp_path / "run"))
    text = (run / "ptxas.json").read_text()
    (run / "ptxas.json").write_text(text.replace('"registers": 123', '"registers": 200'))
    sign(run)
    assert "not to be believed" in page_html(page_of(tmp_path / "none", [str(run)]))


def test_error_maps_of_failed_cases(seen: RunView) -> None:
    text = page(failed(seen, error_map()))
    words = check_whole(text).words
    for part in (
        "Where the output is wrong",
        "small seed 0, output",
        "512 of 16384 elements",
        "[1, 32, 0] 0.118 instead of 0.0312",
        "Likely causes",
        "S (0 to 127)",
        "D (0 to 63)",
        "tail seed 0 (odd) crash: killed by SIGSEGV while running the kernel",
    ):
        assert part in words, part
    assert "Where the output is wrong" not in page(failed(seen, None))


def test_failing_checks_come_with_hint_and_command(seen: RunView) -> None:
    check = Check(
        "max_abs_err", Status.FAIL, 0.5, 0.002, "", "small seed 0", "correctness.error", "look at the store", "gates run x --shapes small"
    )
    result = GateResult("correctness", Status.FAIL, "correctness.error", "max_abs_err (small seed 0): 0.5", (check,))
    verdict = dataclasses.replace(seen.verdict, decision=Decision.REJECT, gates=(*seen.verdict.gates[:2], result, *seen.verdict.gates[3:]))
    words = check_whole(page(dataclasses.replace(seen, verdict=verdict, decision=Decision.REJECT, reason="failed: correctness"))).words
    assert "reject stage2_wmma_pv" in words
    assert (
        "max_abs_err 0.5, limit 0.002 at small seed 0 correctness.error look at the store "
        "in the folder in which the run was started: gates run x --shapes small" in words
    )


def test_nothing_in_evidence_becomes_markup(seen: RunView) -> None:
    """Every text of run, verdict, comparison, evidence and history replaced by something hostile."""
    run = failed(seen, dataclasses.replace(error_map(), limit=HOSTILE))
    evidence = {gate: poisoned(record, HOSTILE) for gate, record in run.evidence.items()}
    run = dataclasses.replace(
        run,
        name=HOSTILE,
        reason=HOSTILE,
        info=poisoned(run.info, HOSTILE),
        verdict=poisoned(run.verdict, HOSTILE),
        comparison=poisoned(run.comparison, HOSTILE),
        evidence=evidence,
    )
    entries = tuple(dataclasses.replace(poisoned(entry, HOSTILE), device=HOSTILE, path=HOSTILE) for entry in history(RECORDED, "stage1"))
    entries += (dataclasses.replace(entries[0], broken=HOSTILE),)
    text = page(run, dataclasses.replace(run, problems=(HOSTILE,)), entries=entries)
    words = check_whole(text).words
    assert words.count("<script>alert(1)</script>") > 50 and "{{ 7*7 }}" in words and "49" not in words.split("{{ 7*7 }}")[1][:5]
    assert "<script" not in text and "\u202e" not in text and "\x1b" not in text


def test_control_characters_are_shown_as_codes(seen: RunView) -> None:
    text = page(dataclasses.replace(seen, reason="a\x00b\x1b\u202ec\nd"))
    assert r"a\x00b\x1b\x202ec d" in text


def test_ladders_follow_baselines_and_say_where_a_gain_is_unknown() -> None:
    entries = history(RECORDED / "h100")
    (chain,) = ladders(entries)
    assert [step.entry.task for step in chain.steps] == [stage.parent.name for stage in STAGES]
    product = 1.0
    for step in chain.steps[1:]:
        product *= 1.0 + step.entry.speedup_pct / 100.0
        assert step.cumulative == pytest.approx(product)
    other = tuple(dataclasses.replace(entry, digest="0" * 64) if entry.task == "stage1_wmma_qk" else entry for entry in entries)
    (chain,) = ladders(other)
    assert chain.steps[2].ratio is None and "another version of stage1_wmma_qk" in chain.steps[2].note
    assert chain.steps[3].ratio is not None and chain.steps[3].cumulative is None
    elsewhere = tuple(dataclasses.replace(entry, shape="long") if entry.task == "stage2_wmma_pv" else entry for entry in entries)
    (chain,) = ladders(elsewhere)
    assert chain.steps[2].ratio is not None and chain.steps[2].cumulative is chain.steps[3].cumulative is None
    assert chain.steps[2].note.startswith("timed on long, cold L2; stage1_wmma_qk on mission")
    assert {(step.runs, step.spread_pct) for step in chain.steps} == {(1, None)}
    again = tuple(dataclasses.replace(entry, p50_us=entry.p50_us * 1.02, started="2026-01-01") for entry in entries if entry.p50_us)
    (chain,) = ladders(again + entries)
    assert [(step.runs, round(step.spread_pct or 0.0, 2)) for step in chain.steps] == [(2, 1.98)] * 4
    assert [step.entry for step in chain.steps] == [step.entry for step in ladders(entries)[0].steps]
    other_folder = tuple(dataclasses.replace(entry, path=f"elsewhere/{entry.task}/{number}") for number, entry in enumerate(again))
    assert [(chain.place, chain.steps[0].runs) for chain in ladders(other_folder + entries)] == [("elsewhere", 1), ("recorded/h100", 1)]
    circle = tuple(dataclasses.replace(entry, baseline="stage3_cp_async") if entry.task == "stage0_scalar" else entry for entry in entries)
    assert ladders(circle) == ()


def test_without_matplotlib_the_page_says_so(seen: RunView, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    words = check_whole(page(seen, entries=history(RECORDED / "h100"))).words
    assert words.count("no picture: matplotlib is not installed (pip install 'kernel-gates[plot]')") == 3 and "Kernel time" in words


def test_what_can_not_be_reported(tmp_path: Path) -> None:
    for out in (tmp_path, tmp_path / "none" / "r.html"):
        with pytest.raises(GatesError, match="can't write") as caught:
            write_report(RECORDED, (), out)
        assert "-o" in (caught.value.hint or "")
    with pytest.raises(GatesError, match="no results folder"):
        write_report(tmp_path / "none", (), tmp_path / "r.html")
    with pytest.raises(GatesError, match="no run found"):
        write_report(tmp_path, (), tmp_path / "r.html")
    with pytest.raises(GatesError, match="not a run directory"):
        write_report(RECORDED, [str(tmp_path)], tmp_path / "r.html")
    run = tmp_path / "task" / "run"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{")
    with pytest.raises(GatesError, match=r"no readable run: .* not valid JSON"):
        write_report(tmp_path, (), tmp_path / "r.html")
    with pytest.raises(GatesError, match="not valid JSON"):
        write_report(tmp_path, [str(run)], tmp_path / "r.html")
    assert [path.name for path in tmp_path.iterdir()] == ["task"]


def test_a_run_that_only_the_report_can_not_read_is_listed(tmp_path: Path) -> None:
    many_runs(tmp_path, 5)
    (run,) = (tmp_path / "stage3_cp_async").iterdir()
    info = json.loads((run / "run.json").read_text())
    del info["seeds" if "seeds" in info else "platform"]
    (run / "run.json").write_text(json.dumps(info))
    found = page_of(tmp_path, ())
    assert len(found.runs) == 4 and [entry.broken for entry in found.entries if entry.broken] == [
        f"{run / 'run.json'}: missing key 'platform'"
    ]


def test_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gates", "report"]
    done = subprocess.run([*command, str(RUN), "--results", str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "written: results/report.html\n", "")
    assert "merge: stage2_wmma_pv</title>" in (tmp_path / "results" / "report.html").read_text(encoding="utf-8")
    for arguments in ([], ["--all", str(RUN)]):
        refused = subprocess.run([*command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert refused.returncode == 2 and "name runs, or say --all" in refused.stderr


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Any:
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium on PATH (apt-get install chromium)")
    with Browser(program, tmp_path_factory.mktemp("profile")) as tab:
        yield tab


WIDE = "document.documentElement.scrollWidth"
BACK = "getComputedStyle(document.body).backgroundColor"
OPEN = "document.querySelectorAll('details').forEach(one => one.open = true)"
HIDDEN_COLUMNS = """[...document.querySelectorAll('.scroll')]
  .filter(box => box.querySelector('table') && box.scrollWidth > box.clientWidth + 1)
  .map(box => `${box.getAttribute('aria-label')}: ${box.scrollWidth} px in ${box.clientWidth}`)"""
# WCAG 2.2, success criterion 1.4.3: 4.5 to 1, large text 3 to 1. Colours are painted one over the other, so that any form and alpha counts.
TOO_FAINT = """(() => {
  const canvas = document.createElement('canvas'); canvas.width = canvas.height = 1;
  const paint = canvas.getContext('2d', {willReadFrequently: true});
  const light = colours => {
    paint.clearRect(0, 0, 1, 1);
    for (const colour of colours) { paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1); }
    const [r, g, b] = [...paint.getImageData(0, 0, 1, 1).data].map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  for (const one of document.querySelectorAll('body *')) {
    const text = [...one.childNodes].filter(node => node.nodeType === 3).map(node => node.data.trim()).join('');
    if (!text || !one.checkVisibility()) continue;
    const style = getComputedStyle(one), backs = [];
    for (let at = one; at; at = at.parentElement) backs.unshift(getComputedStyle(at).backgroundColor);
    const back = light(backs), front = light([...backs, one.closest('svg') ? style.fill : style.color]);
    const contrast = (Math.max(back, front) + 0.05) / (Math.min(back, front) + 0.05), size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    if (contrast < least) found.push(`${text.slice(0, 40)}: ${contrast.toFixed(2)}`);
  }
  return found;
})()"""


@pytest.fixture(scope="module")
def pages(seen: RunView, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages that are looked at: a merge with ladder and history, a reject, a list of runs, and a search."""
    check = Check("max_abs_err", Status.FAIL, 0.5, 0.002, "", "small seed 0", "correctness.max_abs_err", "look at the store")
    result = GateResult("correctness", Status.FAIL, "correctness.max_abs_err", "max_abs_err (small seed 0): 0.5", (check,))
    verdict = dataclasses.replace(seen.verdict, decision=Decision.REJECT, gates=(*seen.verdict.gates[:2], result, *seen.verdict.gates[3:]))
    reject = dataclasses.replace(failed(seen, error_map()), verdict=verdict, decision=Decision.REJECT, reason="failed: correctness")
    edited = dataclasses.replace(seen, problems=("sass.json was changed after the run",))
    texts = {
        "merge": page(seen, entries=history(RECORDED / "h100")),
        "reject": page(reject),
        "list": page(seen, faster(seen), edited),
        "search": tree_html(deep_search(), lambda one: one.score),
    }
    folder = tmp_path_factory.mktemp("pages")
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


def deep_search() -> Evolution:
    """A recorded search, as if each candidate came from the one before it; names and reasons have no place to break."""
    found = read_evolution(opened(next((RECORDED / "h200-evolve" / "evolve" / "fp16_v8_tiles").glob("*.zip"))))
    pairs = zip(found.members, (None, *found.members), strict=False)
    chain = [dataclasses.replace(one, name="x" * 80, note="y" * 80, parent=before and before.id) for one, before in pairs]
    refused = (Refused("patches", "z" * 80, "kernels/sdpa_fp16/" + "w" * 120),)
    generations = (dataclasses.replace(found.generations[0], refused=refused), *found.generations[1:])
    return dataclasses.replace(found, members=tuple(chain), generations=generations)


def faster(run: RunView) -> RunView:
    """The run, as if its p50 had been 1 us."""
    timed = run.evidence["performance"]
    sides = {side: dataclasses.replace(one, p50_us=1.0) for side, one in timed.figures["cold"].items()}
    timed = dataclasses.replace(timed, figures={**timed.figures, "cold": sides})
    return dataclasses.replace(run, evidence={**run.evidence, "performance": timed})


@pytest.mark.parametrize("name", ["merge", "reject", "list", "search"])
def test_in_a_browser(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.requests.clear()
    backs = set()
    for width, dark in ((1200, False), (1200, True), (390, False), (390, True)):
        browser.open(pages[name], width=width, height=800, dark=dark)
        backs.add(browser.ask(BACK))
        browser.ask(OPEN)
        assert browser.ask(WIDE) <= width  # charts scroll in boxes of their own
        assert browser.ask(HIDDEN_COLUMNS) == []
        assert width < 1200 or browser.ask(TOO_FAINT) == []
        assert browser.ask("[...document.querySelectorAll('svg')].every(one => one.getBoundingClientRect().width > 300)")
    assert len(backs) == 2 and set(browser.requests) == {pages[name].resolve().as_uri()} and browser.errors == []
    if name == "merge":
        assert browser.ask("document.querySelectorAll('svg').length") == 3  # timing, ladder, history


def test_the_looks_of_the_browser_can_fail(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    text = pages["merge"].read_text(encoding="utf-8")
    (tmp_path / "bad.html").write_text(text.replace("</style>", ".cards td { color: #aaa; white-space: nowrap; }</style>"))
    browser.open(tmp_path / "bad.html", width=1200)
    browser.ask(OPEN)
    assert browser.ask(TOO_FAINT) != [] and browser.ask(HIDDEN_COLUMNS) != []


def test_the_list_of_runs_is_sorted_by_what_is_chosen(browser: Browser, pages: dict[str, Path]) -> None:
    order = """[...document.querySelectorAll('.index tbody tr')]
      .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)
      .map(row => row.querySelector('[data-label="p50, us"]').textContent)"""
    for width in (1200, 390):
        browser.open(pages["list"], width=width)
        listed = browser.ask(order)
        assert listed[1:] == ["1.00", "-"] and float(listed[0]) > 1
        browser.ask("document.querySelector('#sort-p50').click()")
        assert browser.ask(order) == ["1.00", listed[0], "-"]


def test_with_the_keyboard(browser: Browser, seen: RunView, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text(page(seen), encoding="utf-8")
    browser.open(out)
    browser.press("Tab", 9)
    assert browser.ask("document.activeElement.className") == "skip"
    assert browser.ask("document.activeElement.getBoundingClientRect().left") >= 0
    browser.press("Enter", 13)
    browser.press("Tab", 9)
    assert browser.ask("document.activeElement.getAttribute('aria-label')") == "gates"
    for _ in range(40):
        browser.press("Tab", 9)
        if browser.ask("document.activeElement.tagName == 'SUMMARY' && !document.activeElement.parentElement.open"):
            break
    assert browser.ask("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    browser.press("Enter", 13)
    assert browser.ask("document.activeElement.parentElement.open") is True


def test_hostile_evidence_in_a_browser(browser: Browser, seen: RunView, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text(page(dataclasses.replace(seen, reason=HOSTILE)), encoding="utf-8")
    browser.requests.clear()
    browser.open(out)
    assert browser.ask("document.querySelectorAll('script, img').length") == 0
    assert set(browser.requests) == {out.resolve().as_uri()} and browser.errors == []


def test_the_checks_of_this_file_can_fail(stage2: str) -> None:
    for bad in (
        "<script>1</script>",
        '<a href="https://example.org">x</a>',
        "<p onclick='x'>y</p>",
        "<p>",
        '<p style="background: url(x)"></p>',
    ):
        with pytest.raises(AssertionError):
            check_whole(stage2.replace("</main>", f"{bad}</main>"))
