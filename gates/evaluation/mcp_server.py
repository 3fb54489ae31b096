"""The methods of ``gates serve`` as tools of the Model Context Protocol over stdio, by its official SDK, the extra ``mcp``."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from gates.core.errors import GatesError
from gates.evaluation.serve import Service, Steps, outcome


def mcp_server(service: Service) -> MCPServer:
    """A server whose tools are the methods of ``service``. A call that the client cancels is taken back if it has not begun."""
    server = MCPServer("gates", instructions="Judge candidates of a CUDA kernel. Call describe first, then evaluate.", log_level="ERROR")

    @server.tool()  # type: ignore[untyped-decorator]
    async def evaluate(
        context: Context,
        task: str | None = None,
        files: dict[str, str] | None = None,
        toggles: dict[str, int] | None = None,
        name: str = "",
        parent: str | None = None,
        note: str = "",
    ) -> dict[str, Any]:
        """Judge a candidate: whole texts of changed sources by name, other toggles, or both.

        The answer has status, valid, score (the low end of the speed-up; null if nothing was timed), metrics and feedback, which says
        what to fix or to try next.
        """
        loop, steps = asyncio.get_running_loop(), itertools.count(1)

        def send(event: dict[str, Any]) -> None:
            asyncio.run_coroutine_threadsafe(context.report_progress(next(steps), message=event["text"]), loop)

        given = {"task": task, "files": files, "toggles": toggles, "name": name, "parent": parent, "note": note}
        future = _asked(lambda: service.evaluate(given, Steps(send, None)))
        try:
            await asyncio.wait([asyncio.wrap_future(future)])
        except asyncio.CancelledError:
            future.cancel()
            raise
        answer = outcome(future)
        if "error" in answer:
            raise ToolError(" | ".join(part for part in answer["error"].values() if part))
        return answer["result"]

    @server.tool()  # type: ignore[untyped-decorator]
    def describe(task: str | None = None) -> dict[str, Any]:
        """The task's sources, the problem's text, toggles, shapes, limits, chips and times of the newest runs."""
        return _asked(lambda: service.describe({"task": task}))

    @server.tool()  # type: ignore[untyped-decorator]
    def insights(task: str | None = None, run: str | None = None) -> dict[str, Any]:
        """Where the time of a run goes, what limits it and what to try next; of the task's newest run if none is named."""
        return _asked(lambda: service.insights({"task": task, "run": run}))

    @server.tool()  # type: ignore[untyped-decorator]
    def elite(task: str | None = None, k: int = 3) -> dict[str, Any]:
        """The best versions of the task that may be merged."""
        return _asked(lambda: service.elite({"task": task, "k": k}))

    return server


def _asked(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except GatesError as error:
        raise ToolError(f"{error.what} | {error.hint or ''}") from None
