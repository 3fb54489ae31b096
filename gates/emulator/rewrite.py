"""Rewrite the three things in preprocessed CUDA that are not C++: launches, ``__shared__``, ``__global__``.

Every replacement keeps the lines after it, so that compilers and sanitizers name lines of the .cu file.
"""

from __future__ import annotations

from gates.emulator.launches import rewrite_kernel, rewrite_launch
from gates.emulator.shared_memory import rewrite_shared
from gates.emulator.source import Source

_WORDS = {"__forceinline__": "inline __attribute__((always_inline))", "__noinline__": "__attribute__((noinline))"}
_REWRITES = {"__global__": rewrite_kernel, "__shared__": rewrite_shared}


def rewrite(source: Source) -> str:
    """The text of ``source`` as C++; raises GatesError naming the line that can't be read."""
    for index, token in enumerate(source.tokens):
        if token.kind == "open":
            rewrite_launch(source, index)
        elif token.kind == "identifier" and token.text in _WORDS:
            source.replace(index, index, _WORDS[token.text])
        elif token.kind == "identifier" and token.text in _REWRITES:
            _REWRITES[token.text](source, index)
    return source.edited()
