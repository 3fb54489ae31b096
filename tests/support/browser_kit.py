"""A headless Chromium for tests, spoken to over its DevTools pipe; no driver and no port is needed."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless_shell")


def find_browser() -> str | None:
    """The first Chromium on PATH."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab. ``requests``, ``errors``: every URL that was asked for, and what the console and the log complained of."""

    def __init__(self, program: str, profile: Path, *, limit_s: float = 60.0) -> None:
        """Start ``program`` with a fresh ``profile`` folder; every call fails after ``limit_s``."""
        ours_out, ours_in, theirs_in, theirs_out = _two_pipes()
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._limit_s, self._number, self._buffer, self._events, self._session = limit_s, 0, b"", list[dict[str, Any]](), ""
        self._read, self._write = ours_in, ours_out
        self._process = subprocess.Popen(
            [
                program,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--hide-scrollbars",
                f"--user-data-dir={profile}",
                "--remote-debugging-pipe",
                "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,  # ours are not inherited anyway; 3 and 4 need not be open here, which pass_fds asks for
            preexec_fn=lambda: (os.dup2(theirs_in, 3), os.dup2(theirs_out, 4)),
        )
        os.close(theirs_in)
        os.close(theirs_out)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a DevTools method."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def open(self, path: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Load a file and wait until it is loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self._events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._receive()

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press and release a key, e.g. ``Tab``, 9."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **(text if kind == "keyDown" else {})
            )

    def screenshot(self, out: Path) -> None:
        """The whole page as PNG."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        out.write_bytes(base64.b64decode(shot["data"]))

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + self._limit_s
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"the browser said nothing for {self._limit_s:g} s"
            chunk = os.read(self._read, 2**20)
            assert chunk, "the browser has ended"
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        method, parameters = message.get("method"), message.get("params", {})
        if method is None:
            return
        self._events.append(message)
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown" or (method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning")):
            self.errors.append(json.dumps(parameters)[:300])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(parameters["entry"]["text"])


def _two_pipes() -> tuple[int, int, int, int]:
    """(we write, we read, they read, they write), all well above the two numbers that the browser expects."""
    their_in, our_out = map(_moved, os.pipe())
    our_in, their_out = map(_moved, os.pipe())
    return our_out, our_in, their_in, their_out


def _moved(end: int) -> int:
    number = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 64)
    os.close(end)
    return number
