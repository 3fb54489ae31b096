"""A GitHub for tests: the few REST endpoints that the workflow scripts use, on a local port."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

REPOSITORY = "team/kernels"
_ROOT = f"/repos/{REPOSITORY}/"


class FakeGitHub:
    """Comments, check runs and pull requests in memory; ``fail`` makes the next matching request an error."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.checks: list[dict[str, Any]] = []
        self.pulls: dict[int, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.fail: tuple[str, int, str] | None = None  # (part of the path, status, message)
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake._answer(self, None)

            def do_POST(self) -> None:
                fake._answer(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            do_PATCH = do_POST

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, handler: BaseHTTPRequestHandler, data: Any) -> None:
        parts = urlsplit(handler.path)
        self.asked.append(f"{handler.command} {handler.path}")
        if self.fail and self.fail[0] in parts.path:
            status, answer = self.fail[1], {"message": self.fail[2]}
        elif handler.headers["Authorization"] != "Bearer t0ken":
            status, answer = 401, {"message": "Bad credentials"}
        else:
            status, answer = self._route(handler.command, parts.path.removeprefix(_ROOT), parse_qs(parts.query), data)
        body = json.dumps(answer).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def _route(self, method: str, path: str, query: dict[str, list[str]], data: Any) -> tuple[int, Any]:
        match method, path.split("/"):
            case "POST", ["check-runs"]:
                self.checks.append(data)
                return 201, data
            case "GET", ["pulls"]:
                owner, _, branch = query["head"][0].partition(":")
                return 200, [pull for pull in self.pulls.values() if (pull["owner"], pull["branch"]) == (owner, branch)]
            case "GET", ["pulls", number] if int(number) in self.pulls:
                return 200, self.pulls[int(number)]
            case "GET", ["issues", _, "comments"]:
                start = (int(query["page"][0]) - 1) * 100
                return 200, self.comments[start : start + 100]
            case "POST", ["issues", _, "comments"]:
                self.comments.append({"id": 1000 + len(self.comments), "user": {"type": "Bot"}, **data})
                return 201, self.comments[-1]
            case "PATCH", ["issues", "comments", number]:
                (comment,) = [one for one in self.comments if one["id"] == int(number)]
                comment.update(data)
                return 200, comment
        return 404, {"message": "Not Found"}
