"""Stub headers in place of torch's, which take a compiler half a minute."""

from __future__ import annotations

import pytest
from places import DATA

from gates.build import torch_headers

STUB = DATA / "torch_stub"


@pytest.fixture
def stub_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extensions are compiled with the stub headers."""
    monkeypatch.setattr(torch_headers, "include_folder", lambda: STUB)
