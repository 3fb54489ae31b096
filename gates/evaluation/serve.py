"""Evaluations for a program that goes on asking: JSON lines on stdin and stdout, or HTTP on the loopback address.

A request is ``{"id": …, "method": …, "params": {…}}``. Its answer is one line, ``{"id": …, "result": …}`` or
``{"id": …, "error": {"what", "hint"}}``; an evaluation's events come before, ``{"id": …, "event": "step", "text": …}``. Answers come in the
order in which they are ready.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, Any

from gates.core.errors import GatesError
from gates.core.records import to_json
from gates.evaluation.describe import describe
from gates.evaluation.evaluator import Evaluator
from gates.evaluation.overlay import FIELDS, Candidate
from gates.evaluation.record import Evaluation
from gates.evidence.run_directory import resolve_run
from gates.render.console import Silence
from gates.render.elite import elite_json
from gates.render.insights import insights_json
from gates.review.history import history_or_none
from gates.review.insights.insights import insights_of
from gates.review.leaderboard import elite
from gates.task.load import find_task, nearest

MOST_BYTES = 16 * 2**20  # of a request
_OF_A_TASK = ("describe", "elite", "insights")
Request = Mapping[str, Any]


class Steps(Silence):
    """Progress that goes to the one who asked."""

    def __init__(self, send: Callable[[dict[str, Any]], None], request: Any) -> None:
        super().__init__()
        self._send, self._request = send, request

    def step(self, text: str, limit_s: float | None = None) -> None:
        self._send({"id": self._request, "event": "step", "text": text})


class Service:
    """What both transports answer from: ``evaluators`` by the name of their task."""

    def __init__(self, evaluators: Mapping[str, Evaluator]) -> None:
        self.evaluators, self._lock = dict(evaluators), threading.Lock()
        self._asked: dict[str, Future[Evaluation]] = {}

    def evaluate(self, params: Request, progress: Any = None) -> Future[Evaluation]:
        """Submit the candidate of ``params``; GatesError for a task that is not served or a field that is not known."""
        if strange := sorted(set(params) - {"task", *FIELDS}):
            raise GatesError(f"evaluate has no parameter {strange[0]!r}", hint=nearest(strange[0], ["task", *FIELDS]))
        fields = {name: params[name] for name in FIELDS if params.get(name) is not None}
        for name in ("files", "toggles"):
            if not isinstance(fields.get(name, {}), dict):
                raise GatesError(f"{name} is not an object", hint='e.g. {"files": {"kernel.cu": "…"}, "toggles": {"TILE": 64}}')
        return self._evaluator(params).submit(Candidate(**fields), progress)

    def describe(self, params: Request) -> dict[str, Any]:
        """What ``gates.evaluation.describe`` says of the task."""
        evaluator = self._evaluator(params)
        return describe(find_task(evaluator.task), evaluator.terms.results)

    def elite(self, params: Request) -> dict[str, Any]:
        """The best versions of the task that may be merged; ``k`` of them per group (default 3)."""
        evaluator, k = self._evaluator(params), params.get("k", 3)
        if type(k) is not int or k < 1:
            raise GatesError(f"k is {k!r:.40}", hint="a whole number from 1")
        return elite_json(elite(evaluator.terms.results, find_task(evaluator.task).name, k))

    def insights(self, params: Request) -> dict[str, Any]:
        """What to try next, from ``run`` (default: the newest run of the task)."""
        evaluator = self._evaluator(params)
        results, newest = evaluator.terms.results, f"latest:{find_task(evaluator.task).name}"
        return insights_json([insights_of(resolve_run(str(params.get("run") or newest), results), history_or_none(results))])

    def keep(self, request: str, future: Future[Evaluation]) -> None:
        """Remember an evaluation under the name of its request."""
        with self._lock:
            if request in self._asked:
                raise GatesError(f"the id {request!r} is taken", hint="each request has an id of its own")
            self._asked[request] = future

    def state(self, request: str) -> dict[str, Any]:
        """``waiting``, ``running``, ``cancelled`` or ``done`` with the result or the error; GatesError for an id that nobody gave."""
        future = self._asked.get(request)
        if future is None:
            raise GatesError(f"no request {request[:80]!r}", hint="ids are those of earlier evaluate requests")
        if future.cancelled():
            return {"state": "cancelled"}
        if not future.done():
            return {"state": "running" if future.running() else "waiting"}
        return {"state": "done", **outcome(future)}

    def cancel(self, request: str) -> dict[str, Any]:
        """Take back what has not begun; what runs goes on to its end."""
        before = self.state(request)
        return {"state": "cancelled"} if self._asked[request].cancel() else before

    def _evaluator(self, params: Request) -> Evaluator:
        name = params.get("task")
        if name is None and len(self.evaluators) == 1:
            return next(iter(self.evaluators.values()))
        if name not in self.evaluators:
            raise GatesError(f"task {name!r} is not served here", hint=nearest(str(name), self.evaluators))
        return self.evaluators[name]


def outcome(future: Future[Evaluation]) -> dict[str, Any]:
    """``{"result": …}`` or ``{"error": …}`` of an evaluation that is over."""
    try:
        return {"result": to_json(future.result())}
    except CancelledError:
        return {"error": {"what": "cancelled", "hint": ""}}
    except KeyboardInterrupt:
        return {"error": {"what": "the server ended", "hint": "ask again: what was judged is kept"}}
    except Exception as error:
        return {"error": told(error)}


def told(error: Exception) -> dict[str, Any]:
    """The error as a program reads it."""
    if isinstance(error, GatesError):
        return {"what": error.what, "hint": error.hint or ""}
    return {"what": f"internal error: {type(error).__name__}: {error}", "hint": "this is a bug in gates: report it"}


def serve_lines(service: Service, lines: IO[str], out: IO[str]) -> None:
    """Answer each line until the input ends; then wait for what is under way."""
    lock = threading.Lock()

    def send(answer: dict[str, Any]) -> None:
        with lock:
            out.write(json.dumps(answer, allow_nan=False) + "\n")
            out.flush()

    waiting = []
    while line := lines.readline(MOST_BYTES + 1):
        if not line.strip():
            continue
        request, method, params = None, None, None
        try:
            data = _parsed(line)
            request, method, params = data.get("id"), data.get("method"), data.get("params") or {}
            if not isinstance(request, (str, int)) or isinstance(request, bool):
                raise GatesError("id is not a text or a number", hint='e.g. {"id": 1, "method": "evaluate", "params": {}}')
            if not isinstance(params, dict):
                raise GatesError("params is not an object", hint='e.g. "params": {"toggles": {"TILE": 64}}')
            if method == "evaluate":
                future = service.evaluate(params, Steps(send, request))
                service.keep(str(request), future)
                future.add_done_callback(partial(_send_outcome, send, request))
                waiting.append(future)
            else:
                send({"id": request, "result": _called(service, str(method), params)})
        except GatesError as error:
            send({"id": request, "error": told(error)})
    for future in waiting:
        future.exception() if not future.cancelled() else None


def _send_outcome(send: Callable[[dict[str, Any]], None], request: Any, done: Future[Evaluation]) -> None:
    send({"id": request, **outcome(done)})


def _parsed(line: str) -> dict[str, Any]:
    if len(line) > MOST_BYTES:
        raise GatesError(f"a request is longer than {MOST_BYTES // 2**20} MiB", hint="send less text at a time")
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise GatesError(f"a request is not JSON: {error}", hint="one JSON object a line") from None
    if not isinstance(data, dict):
        raise GatesError("a request is not an object", hint='e.g. {"id": 1, "method": "evaluate", "params": {}}')
    return data


def _called(service: Service, method: str, params: Request) -> Any:
    methods: dict[str, Callable[[], Any]] = {
        "describe": lambda: service.describe(params),
        "elite": lambda: service.elite(params),
        "insights": lambda: service.insights(params),
        "status": lambda: service.state(str(params.get("id"))),
        "cancel": lambda: service.cancel(str(params.get("id"))),
    }
    if method not in methods:
        raise GatesError(f"no method {method!r:.80}", hint=nearest(method, ["evaluate", *methods]))
    return methods[method]()


def http_server(service: Service, port: int) -> ThreadingHTTPServer:
    """A server on 127.0.0.1: POST /evaluate?wait=1, GET /status/ID, POST /cancel/ID, GET /describe/TASK and the like, GET /health."""
    numbers = iter(range(1, 2**62))
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answered(lambda: self._get(*self.path.strip("/").split("/", 1)))

        def do_POST(self) -> None:
            self._answered(lambda: self._post(*self.path.strip("/").split("/", 1)))

        def _get(self, what: str, rest: str = "") -> dict[str, Any]:
            if what == "health":
                return {"tasks": sorted(service.evaluators)}
            if what in _OF_A_TASK:
                return _called(service, what, {"task": rest or None})
            if what == "status":
                return service.state(rest)
            raise _Missing(f"no page {self.path[:80]!r}", hint="GET /health, /describe/TASK, /elite/TASK, /insights/TASK, /status/ID")

        def _post(self, what: str, rest: str = "") -> dict[str, Any]:
            body = self._body()
            if what == "cancel":
                return service.cancel(rest)
            if what.partition("?")[0] != "evaluate":
                raise _Missing(f"no page {self.path[:80]!r}", hint="POST /evaluate, /cancel/ID")
            future = service.evaluate(_parsed(body or "{}"))
            with lock:
                name = str(next(numbers))
            service.keep(name, future)
            if what.endswith("?wait=1"):
                future.exception()
            return {"id": name, **service.state(name)}

        def _body(self) -> str:
            length = self.headers.get("Content-Length", "0")
            if not length.isdigit() or int(length) > MOST_BYTES:
                self.close_connection = True
                raise GatesError(f"a request of {length[:20]} bytes", hint=f"Content-Length is a number of at most {MOST_BYTES}")
            return self.rfile.read(int(length)).decode("utf-8", "replace")

        def _answered(self, work: Callable[[], dict[str, Any]]) -> None:
            try:
                code, answer = 200, work()
            except _Missing as error:
                code, answer = 404, {"error": told(error)}
            except GatesError as error:
                code, answer = 400, {"error": told(error)}
            data = json.dumps(answer, allow_nan=False).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


class _Missing(GatesError):
    """There is no such page."""
