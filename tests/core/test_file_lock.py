"""A lock on a file: alone, or together with others that do not want it alone."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gates.core.file_lock import locked


def held_by_another(path: Path, *, alone: bool) -> bool:
    """Whether another thread gets the lock within a tenth of a second; it lets go at once, or as soon as this one does."""
    got = threading.Event()

    def take() -> None:
        with locked(path, alone=alone):
            got.set()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    return got.wait(0.1)


@pytest.mark.parametrize(
    ("mine", "others", "gets_it"), [(True, True, False), (True, False, False), (False, True, False), (False, False, True)]
)
def test_only_those_that_share_it_hold_it_together(mine: bool, others: bool, gets_it: bool, tmp_path: Path) -> None:
    with locked(tmp_path / "card.lock", alone=mine):
        assert held_by_another(tmp_path / "card.lock", alone=others) is gets_it
    with locked(tmp_path / "card.lock"):
        pass


def test_a_folder_is_locked_as_it_is(tmp_path: Path) -> None:
    with locked(tmp_path):
        assert not held_by_another(tmp_path, alone=True) and not list(tmp_path.iterdir())
