"""``kernel<<<grid, block, bytes, stream>>>(arguments)`` and ``__global__ void kernel(…) { … }``."""

from __future__ import annotations

from gates.emulator.source import OPEN, Source, literal

_SPECIFIER_CALLS = {"__launch_bounds__", "__attribute__", "alignas", "decltype", "noexcept"}


def rewrite_launch(source: Source, opening: int) -> None:
    """``<<<`` at ``opening``: a call of the emulator's launch function, with the kernel's call in a lambda."""
    first, name = _callee(source, opening)
    close = _launch_close(source, opening)
    if not source.has(close + 3, "("):
        raise source.error(opening, "a launch needs its arguments: kernel<<<…>>>(…)")
    source.insert(
        source.tokens[first].start,
        f"::gates_emulator::launch({literal(name)}, {source.site(opening)}, [&](auto&... gates_arguments) -> void {{ ",
    )
    source.replace(opening, opening, "(gates_arguments...); }, ::gates_emulator::Config(")
    source.replace(close, close + 2, "))")


def _callee(source: Source, opening: int) -> tuple[int, str]:
    """First token and base name of the kernel expression that ends before ``opening``."""
    index = opening - 1
    if source.has(index, ">"):
        index = source.angle_open(index) - 1
    if source.has(index, ")"):  # (pointer)<<<…>>>
        return source.other(index), source.words(source.other(index) + 1, index - 1)
    if index < 0 or source.tokens[index].kind != "identifier":
        raise source.error(opening, "can't read the kernel before '<<<'")
    name = source.tokens[index].text
    if source.has(index - 1, "template"):
        index -= 1
    while source.has(index - 1, "::") or source.has(index - 1, ".") or source.has(index - 1, "->"):
        index -= 1
        if source.has(index - 1, ">"):
            index = source.angle_open(index - 1)
        if index > 0 and source.tokens[index - 1].kind == "identifier" and not source.has(index - 1, "return"):
            index -= 1
    return index, name


def _launch_close(source: Source, opening: int) -> int:
    index = opening + 1
    while index < len(source.tokens):
        text = source.tokens[index].text
        if text in OPEN and source.tokens[index].kind == "punctuation":
            index = source.other(index)
        elif text == ">" and source.has(index + 1, ">") and source.has(index + 2, ">"):
            return index
        elif text in (";", "}"):
            break
        index += 1
    raise source.error(opening, "'<<<' without '>>>'")


def rewrite_kernel(source: Source, start: int) -> None:
    """``__global__`` at ``start``: the function gets a first statement that says which kernel it is."""
    source.replace(start, start, "")
    bounds = "0"
    index = start + 1
    while index < len(source.tokens):
        token = source.tokens[index]
        if token.text in (";", "{", "}", "="):
            raise source.error(start, "can't read the function after __global__")
        if token.text == "(":
            closing = source.other(index)
            if source.tokens[index - 1].text not in _SPECIFIER_CALLS:
                break
            if source.has(index - 1, "__launch_bounds__"):
                bounds = _first_argument(source, index, closing)
                source.replace(index - 1, closing, "")
            index = closing
        index += 1
    name_index = index - 1
    if source.has(name_index, ">"):
        name_index = source.angle_open(name_index) - 1
    name = source.tokens[name_index].text
    body = source.other(index) + 1
    while body < len(source.tokens) and source.tokens[body].text not in ("{", ";"):
        body += 1
    if source.has(body, "{"):
        source.insert(
            source.tokens[body].end,
            f" static ::gates_emulator::KernelEntry gates_kernel_entry{{{literal(name)}, __PRETTY_FUNCTION__, {source.site(name_index)}, "
            f"static_cast<unsigned>({bounds})}}; if (::gates_emulator::enter(gates_kernel_entry)) return; ",
        )


def _first_argument(source: Source, opening: int, closing: int) -> str:
    index = opening + 1
    while index < closing and not source.has(index, ","):
        index = source.partner[index] if source.tokens[index].text in OPEN else index
        index += 1
    return source.words(opening + 1, index - 1)
