"""The tools of `gates serve --mcp`, asked by the SDK's own client; the evaluations are made up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from test_serve import service  # noqa: F401

from gates.evaluation.serve import Service

pytest.importorskip("mcp", reason="the Model Context Protocol's SDK is not installed: pip install 'kernel-gates[mcp]'")

from mcp import Client  # noqa: E402

from gates.evaluation.mcp_server import mcp_server  # noqa: E402


def asked(service: Service, calls: list[tuple[str, dict[str, Any]]]) -> tuple[list[str], list[Any]]:  # noqa: F811
    async def ask() -> tuple[list[str], list[Any]]:
        async with Client(mcp_server(service)) as client:
            tools = await client.list_tools()
            answers = await asyncio.gather(*(client.call_tool(name, given) for name, given in calls))
            return [tool.name for tool in tools.tools], answers

    return asyncio.run(ask())


def test_an_agent_reads_the_task_and_has_candidates_judged(service: Service) -> None:  # noqa: F811
    names, (told, right, wrong, broken) = asked(
        service,
        [
            ("describe", {}),
            ("evaluate", {"name": "here", "toggles": {"USE_COALESCED": 0}}),
            ("evaluate", {"task": "other"}),
            ("evaluate", {"name": "broken"}),
        ],
    )
    assert names == ["evaluate", "describe", "insights", "elite"]
    assert "saxpy.cu" in told.structured_content["files"] and not told.is_error
    assert right.structured_content["name"] == "here" and right.structured_content["feedback"] == "ok"
    assert wrong.is_error and "is not served here" in wrong.content[0].text
    assert broken.is_error and "no space left | free some" in broken.content[0].text


def test_many_clients_calls_are_each_answered(service: Service) -> None:  # noqa: F811
    _, answers = asked(service, [("evaluate", {"name": f"n{n}", "toggles": {"USE_COALESCED": n}}) for n in range(50)])
    assert [one.structured_content["name"] for one in answers] == [f"n{n}" for n in range(50)]
