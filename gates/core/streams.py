"""Let stdout fail without ending the command: on a full disk, or after the reader closed the pipe."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

_MOST_CHARACTERS = 4000


class Stdout:
    """A text stream that replaces stdout. Text that can't be written goes to stderr with the reason; a closed pipe is silent.

    ``error`` is what the disk said, or None. A reader that has gone away (`| head -1`) wants no more: that is no error.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._closed = False
        self.error: OSError | None = None

    def write(self, text: str) -> int:
        """Write and flush ``text``; never raises OSError."""
        if self.error is None and not self._closed:
            try:
                written = self._stream.write(text)
                self._stream.flush()
                return written
            except BrokenPipeError:
                self._closed = True
            except OSError as error:
                self.error = error
                _to_stderr(f"error: can't write to stdout: {error.strerror}; the text was:\n")
            self._give_up()
        if self.error is not None:
            _to_stderr(text[-_MOST_CHARACTERS:])
        return len(text)

    def flush(self) -> None:
        """Do nothing: each write is flushed."""

    def _give_up(self) -> None:
        """Discard what the stream still buffers, so that the interpreter can't fail on it at its end."""
        with contextlib.suppress(OSError, ValueError):
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, self._stream.fileno())
            os.close(sink)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def tolerant_stdout() -> Iterator[Stdout]:
    """sys.stdout as a ``Stdout`` until the block ends."""
    before = sys.stdout
    stream = Stdout(before)
    sys.stdout = stream
    try:
        yield stream
    finally:
        sys.stdout = before


def _to_stderr(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
