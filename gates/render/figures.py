"""Draw matplotlib figures that do not depend on a notebook, a matplotlibrc or the environment.

matplotlib is imported only here, and only when a picture is drawn.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.core.text import plain_lines

BLUE, GREY = "#0072B2", "#666666"
SUFFIXES = (".png", ".svg")
_OF_THE_USER = ("MPLBACKEND", "MATPLOTLIBRC")  # either can make the import fail

Context = Callable[[Mapping[str, Any]], contextlib.AbstractContextManager[Any]]


def load_matplotlib() -> tuple[Any, Context]:
    """(Figure, context): ``with context(settings):`` draws by matplotlib's own defaults and ``settings``. GatesError without matplotlib."""
    try:
        with _without(_OF_THE_USER):
            import matplotlib
            from matplotlib.figure import Figure
    except ImportError:
        raise GatesError("matplotlib is not installed", hint="pip install 'kernel-gates[plot]'") from None
    except (OSError, ValueError) as error:
        raise GatesError(
            f"matplotlib can't be loaded: {error}", hint="a file matplotlibrc here or in your home folder may be broken"
        ) from None
    defaults = {name: value for name, value in matplotlib.rcParamsDefault.items() if not name.startswith("backend")}
    return Figure, lambda settings: matplotlib.rc_context({**defaults, **settings})


def save(figure: Any, out: Path, context: Context, *, hint: str) -> None:
    """Write ``figure`` to ``out`` (.png or .svg); raises GatesError with ``hint`` if it can't be written."""
    data, form = io.BytesIO(), out.suffix[1:].lower()
    with context({"svg.hashsalt": "gates", "text.parse_math": False}):
        figure.savefig(data, format=form, dpi=150)
    content = data.getvalue()
    try:
        jsonio.write_bytes(out, plain_lines(content.decode("utf-8")).encode("utf-8") if form == "svg" else content)
    except GatesError as error:
        raise GatesError(error.what, hint=hint) from None


def require_suffix(out: Path, option: str) -> None:
    """Raise GatesError, which tells of ``option``, if ``out`` is not a .png or .svg file."""
    if out.suffix.lower() not in SUFFIXES:
        raise GatesError(
            f"{out}: a picture is .png or .svg", hint=f"e.g. {option} {out.with_suffix('.png') if out.name else 'picture.png'}"
        )


@contextlib.contextmanager
def _without(names: tuple[str, ...]) -> Iterator[None]:
    kept = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)
