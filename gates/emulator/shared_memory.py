"""``__shared__ T name[…];`` and ``extern __shared__ T name[];``, inside functions."""

from __future__ import annotations

from dataclasses import dataclass

from gates.emulator.source import OPEN, Source, literal


@dataclass(frozen=True)
class Variable:
    """One variable of a declaration: ``float *p[4]`` has specifier ``float``, ``*`` before and ``[4]`` after its name."""

    specifier: str
    before: str
    name: str
    after: str


def rewrite_shared(source: Source, keyword: int) -> None:
    """``__shared__`` at ``keyword``: each variable becomes a reference into the block's shared memory."""
    first, last = _declaration(source, keyword)
    if not _inside_function(source, first):
        raise source.error(
            keyword,
            "__shared__ outside a function is not supported by the emulator",
            "declare it in the kernel, or in the function that uses it",
        )
    words = [i for i in range(first, last) if source.tokens[i].text not in ("__shared__", "static", "extern")]
    external = any(source.has(i, "extern") for i in range(first, last))
    out = [
        _dynamic(variable, f"{keyword}_{number}") if external else _static(variable, f"{keyword}_{number}", source.site(keyword))
        for number, variable in enumerate(_variables(source, words, keyword))
    ]
    source.replace(first, last, " ".join(out))


def _declaration(source: Source, keyword: int) -> tuple[int, int]:
    first = keyword
    while first > 0 and source.tokens[first - 1].text not in (";", "{", "}", ")", ":"):
        first -= 1
    last = keyword
    while last < len(source.tokens) and not source.has(last, ";"):
        last = source.other(last) if source.tokens[last].text in OPEN else last
        last += 1
    if last == len(source.tokens):
        raise source.error(keyword, "__shared__ declaration without ';'")
    return first, last


def _inside_function(source: Source, index: int) -> bool:
    """Some brace around ``index`` is not that of a namespace or of ``extern "C"``."""
    for opening, closing in source.partner.items():
        if source.has(opening, "{") and opening < index < closing and not _is_namespace(source, opening):
            return True
    return False


def _is_namespace(source: Source, brace: int) -> bool:
    index = brace - 1
    if index > 0 and source.tokens[index].kind == "string":
        return source.has(index - 1, "extern")
    while index >= 0 and (source.tokens[index].kind == "identifier" or source.has(index, "::")):
        if source.has(index, "namespace"):
            return True
        index -= 1
    return False


def _variables(source: Source, words: list[int], keyword: int) -> list[Variable]:
    """``float a[4], *b;`` declares two."""
    groups: list[list[int]] = [[]]
    skip_to, angles = -1, 0
    for i in words:
        text = source.tokens[i].text
        if i > skip_to:
            if text in OPEN:
                skip_to = source.other(i)
            angles += (text == "<") - (text == ">")
            if text == "," and angles == 0:
                groups.append([])
                continue
        groups[-1].append(i)
    specifier = groups[0][: _name_position(source, groups[0], keyword)]
    while specifier and source.has(specifier[-1], "*"):
        specifier.pop()
    groups[0] = groups[0][len(specifier) :]
    return [_variable(source, specifier, group, keyword) for group in groups]


def _variable(source: Source, specifier: list[int], declarator: list[int], keyword: int) -> Variable:
    def text(words: list[int]) -> str:
        return " ".join(source.tokens[i].text for i in words)

    at = _name_position(source, declarator, keyword)
    return Variable(text(specifier), text(declarator[:at]), source.tokens[declarator[at]].text, text(declarator[at + 1 :]))


def _name_position(source: Source, group: list[int], keyword: int) -> int:
    """Position in ``group`` of the declared name: the last identifier outside all brackets."""
    found, skip_to = -1, -1
    for position, i in enumerate(group):
        if i <= skip_to:
            continue
        text = source.tokens[i].text
        if text == "=":
            raise source.error(keyword, "a __shared__ variable can't have an initialiser")
        if text in OPEN:
            skip_to = source.other(i)
        elif source.tokens[i].kind == "identifier" and not source.has(i + 1, "("):
            found = position
    if found < 0:
        raise source.error(keyword, "can't read this __shared__ declaration")
    return found


def _static(variable: Variable, number: str, site: str) -> str:
    kind, slot, name = f"gates_shared_{number}", f"gates_slot_{number}", variable.name
    # A struct takes any declarator, and its alignment is that of the variable, alignas included.
    return (
        f"struct {kind} {{ {variable.specifier} {variable.before} {name} {variable.after}; }}; "
        f"static ::gates_emulator::SharedSlot {slot}{{{literal(name)}, {site}}}; "
        f"auto& {name} = ::gates_emulator::shared_variable<{kind}>({slot}).{name};"
    )


def _dynamic(variable: Variable, number: str) -> str:
    kind = f"gates_dynamic_{number}"
    return (
        f"typedef {variable.specifier} {variable.before} {kind} {variable.after}; "
        f"{kind}& {variable.name} = ::gates_emulator::dynamic_shared<{kind}>();"
    )
