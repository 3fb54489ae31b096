"""The evaluator for a program that goes on asking: JSON lines and HTTP, with evaluations that a fake answers at once."""

from __future__ import annotations

import io
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from places import RECORDED, TASKS

from gates.core.errors import GatesError
from gates.evaluation import evaluator as pool
from gates.evaluation.overlay import Candidate
from gates.evaluation.record import Evaluation, GateSeen
from gates.evaluation.serve import Service, http_server, outcome, serve_lines
from gates.evaluation.terms import Terms
from gates.worker import process

FAST = str(TASKS / "saxpy_fast")


def an_answer(name: str) -> Evaluation:
    seen = (GateSeen("ptxas", "pass", "ptxas.pass", "1 compiled kernel within budget", 0.02),)
    fields = {"task": "saxpy_fast", "status": "pass", "stage": "static", "code": "ptxas.pass", "valid": True, "metrics": {}, "gates": seen}
    rest = {"parent": None, "note": "", "score": None, "score_high": None, "p50_us": None, "device": None, "files": {}, "toggles": {}}
    return Evaluation(1, "0", "ab", name=name, feedback="ok", artifacts={}, seconds={}, evidence="e", **fields, **rest)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service of one task. A candidate called ``wait`` is under way until ``go`` is set; ``broken`` is a fault of the machine."""
    go = threading.Event()

    def fake(task: str, candidate: Any, terms: Terms, progress: Any, *_: Any) -> Evaluation:
        progress.step(f"{task[-4:]}: compiling")
        if candidate.name == "wait":
            assert go.wait(30)
        if candidate.name == "broken":
            raise GatesError("no space left", hint="free some")
        if candidate.name == "bug":
            raise ZeroDivisionError("division by zero")
        return an_answer(candidate.name)

    monkeypatch.setattr(pool, "evaluate_task", fake)
    with pool.Evaluator(FAST, Terms("static"), workers=1) as evaluator:
        made = Service({"saxpy_fast": evaluator})
        made.go = go  # type: ignore[attr-defined]
        yield made
        go.set()


def answers(service: Service, *requests: Any) -> dict[Any, list[dict[str, Any]]]:
    lines = "".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in requests)
    out = io.StringIO()
    serve_lines(service, io.StringIO(lines), out)
    found: dict[Any, list[dict[str, Any]]] = {}
    for line in out.getvalue().splitlines():
        found.setdefault(json.loads(line)["id"], []).append(json.loads(line))
    return found


def ask(number: int, method: str = "evaluate", **params: Any) -> dict[str, Any]:
    return {"id": number, "method": method, "params": params}


def test_every_request_has_its_events_and_one_answer(service: Service) -> None:
    found = answers(service, *(ask(n, name=f"n{n}", toggles={"USE_COALESCED": n}) for n in range(4)))
    assert {n: [sorted(one) for one in found[n]] for n in found} == {n: [["event", "id", "text"], ["id", "result"]] for n in range(4)}
    assert [found[n][1]["result"]["name"] for n in range(4)] == ["n0", "n1", "n2", "n3"]


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ("not json", "a request is not JSON"),
        ("[1]", "a request is not an object"),
        ("[" * 100_000, "a request is not JSON"),
        ({"method": "evaluate"}, "id is not a text or a number"),
        ({"id": True, "method": "evaluate"}, "id is not a text or a number"),
        ({"id": 1, "method": "evaluate", "params": []}, None),
        ({"id": 1, "method": "evaluate", "params": 3}, "params is not an object"),
        (ask(1, "evalute"), "no method 'evalute'"),
        (ask(1, task="other"), "task 'other' is not served here"),
        (ask(1, file={}), "evaluate has no parameter 'file'"),
        (ask(1, files=[]), "files is not an object"),
        (ask(1, files={"a": 1}), "files must hold texts"),
        (ask(1, "status", id="nobody"), "no request 'nobody'"),
        (ask(1, "elite", k="many"), "k is 'many'"),
        (ask(1, "insights", run="nowhere"), "nowhere does not exist"),
        (ask(1, name="broken"), "no space left"),
        (ask(1, name="bug"), "internal error: ZeroDivisionError"),
    ],
)
def test_a_bad_request_is_one_error_and_the_next_one_is_answered(service: Service, request_: Any, says: str | None) -> None:
    found = answers(service, request_, ask(7, name="after", toggles={"USE_COALESCED": 0}))
    assert found[7][-1]["result"]["name"] == "after"
    if says is not None:
        ((error,),) = [[one["error"] for one in lines if "error" in one] for number, lines in found.items() if number != 7]
        assert says in error["what"]


def test_an_id_is_taken_once(service: Service) -> None:
    found = answers(service, ask(1, name="a"), ask(1, name="b", toggles={"USE_COALESCED": 0}))
    assert sum("result" in one for one in found[1]) == 1 and any("is taken" in one.get("error", {}).get("what", "") for one in found[1])


def test_what_waits_can_be_taken_back(service: Service) -> None:
    first = service.evaluate({"name": "wait"})
    second = service.evaluate({"name": "later", "toggles": {"USE_COALESCED": 0}})
    service.keep("1", first)
    service.keep("2", second)
    assert service.state("2") == {"state": "waiting"} and service.cancel("2") == {"state": "cancelled"} == service.state("2")
    assert service.cancel("1") == {"state": "running"}
    service.go.set()  # type: ignore[attr-defined]
    first.result(30)
    assert service.state("1")["result"]["name"] == "wait"


def test_ten_thousand_candidates_may_wait(service: Service) -> None:
    evaluator = service.evaluators["saxpy_fast"]
    found = list(evaluator.map({"name": f"n{n}", "toggles": {"USE_COALESCED": n}} for n in range(10_000)))
    assert [one.name for one in found] == [f"n{n}" for n in range(10_000)]


def test_describe_gives_what_may_be_replaced(service: Service) -> None:
    told = service.describe({})
    assert list(told["files"]) == ["saxpy.cu"] and "__global__" in told["files"]["saxpy.cu"] and "correctness" in told["limits"]
    assert told["stages"] == ["static", "numbers", "memory", "speed"] and "USE_COALESCED" in told["toggles"]


def test_insights_and_the_elite_are_those_of_the_commands(service: Service) -> None:
    run = next((RECORDED / "h100" / "stage2_wmma_pv").glob("*.zip"))
    (found,) = service.insights({"run": str(run)})["runs"]
    assert found["task"] == "stage2_wmma_pv" and found["steps"][0]["rule"] == "memory_wait"
    service.evaluators["saxpy_fast"].terms = Terms("static", results=RECORDED / "h200")
    with pytest.raises(GatesError, match="no run of 'saxpy_fast'"):
        service.elite({})


@pytest.fixture
def address(service: Service) -> Iterator[str]:
    server = http_server(service, 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    assert server.server_address[0] == "127.0.0.1"
    yield f"http://127.0.0.1:{server.server_address[1]}"
    service.go.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()


def fetched(url: str, data: Any = None) -> tuple[int, dict[str, Any]]:
    body = None if data is None else data if isinstance(data, bytes) else json.dumps(data).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_http_submits_polls_and_waits(address: str) -> None:
    assert fetched(f"{address}/health") == (200, {"tasks": ["saxpy_fast"]})
    code, whole = fetched(f"{address}/evaluate?wait=1", {"name": "here"})
    assert code == 200 and whole["state"] == "done" and whole["result"]["name"] == "here"
    assert fetched(f"{address}/status/{whole['id']}")[1]["result"]["name"] == "here"
    with ThreadPoolExecutor(8) as clients:
        urls = [f"{address}/evaluate?wait=1"] * 8
        names = [{"name": f"c{n}", "toggles": {"USE_COALESCED": n}} for n in range(8)]
        found = list(clients.map(fetched, urls, names))
    assert [one["result"]["name"] for _, one in found] == [f"c{n}" for n in range(8)]
    assert len({one["id"] for _, one in found}) == 8


@pytest.mark.parametrize(
    ("path", "data", "code", "says"),
    [
        ("evaluate", b"{", 400, "not JSON"),
        ("evaluate", {"task": "x"}, 400, "is not served here"),
        ("nothing", {}, 404, "no page"),
        ("nothing", None, 404, "no page"),
        ("status/99", None, 400, "no request '99'"),
        ("describe/x", None, 400, "is not served here"),
    ],
)
def test_http_errors_are_json_too(address: str, path: str, data: Any, code: int, says: str) -> None:
    found = fetched(f"{address}/{path}", data)
    assert found[0] == code and says in found[1]["error"]["what"]


def test_a_server_that_is_interrupted_ends_what_is_under_way_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    began = threading.Event()

    def slow(task: str, candidate: Any, terms: Terms, *_: Any) -> Evaluation:
        began.set()
        process.run(["sleep", "60"], limit_s=60)
        return an_answer("late")

    monkeypatch.setattr(pool, "evaluate_task", slow)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), pool.Evaluator(FAST, Terms("static"), workers=1) as evaluator:
        futures = [evaluator.submit(Candidate({}, {"USE_COALESCED": n})) for n in range(2)]
        assert began.wait(20)
        raise KeyboardInterrupt
    assert time.monotonic() - started < 20 and futures[1].cancelled()
    assert [outcome(one)["error"]["what"] for one in futures] == ["the server ended", "cancelled"]
