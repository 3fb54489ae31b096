"""Rewrite the three things in preprocessed CUDA that are not C++: launches, ``__shared__``, ``__global__``.

Every replacement keeps the number of lines, so that compilers and sanitizers name lines of the .cu file.
"""

from __future__ import annotations

from dataclasses import dataclass

from gates.emulator.tokens import MARKER, Lines, Token
from gates.errors import GatesError

_OPEN = {"(": ")", "[": "]", "{": "}"}
_CLOSE = {close: opening for opening, close in _OPEN.items()}
_SPECIFIER_CALLS = {"__launch_bounds__", "__attribute__", "alignas", "decltype", "noexcept", "_Alignas"}
_SIMPLE = {"__forceinline__": "inline __attribute__((always_inline))", "__noinline__": "__attribute__((noinline))"}


@dataclass(frozen=True)
class Edit:
    """Replace ``start:end`` of the text."""

    start: int
    end: int
    text: str


def literal(text: str) -> str:
    """A C string literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Rewriter:
    """All edits for one preprocessed file."""

    def __init__(self, text: str, tokens: list[Token], lines: Lines) -> None:
        self.text = text
        self.tokens = tokens
        self.lines = lines
        self.edits: list[Edit] = []
        self._partner = self._match_brackets()
        self._count = 0

    def run(self) -> str:
        """The rewritten text."""
        for index, token in enumerate(self.tokens):
            if token.kind == "open":
                self._launch(index)
            elif token.kind == "identifier":
                if token.text in _SIMPLE:
                    self._replace(index, index, _SIMPLE[token.text])
                elif token.text == "__global__":
                    self._kernel(index)
                elif token.text == "__shared__":
                    self._shared(index)
        return self._apply()

    def error(self, index: int, message: str, hint: str | None = None) -> GatesError:
        """A GatesError that names the file and line of a token."""
        file, line = self.lines.where(self.tokens[min(index, len(self.tokens) - 1)].start)
        return GatesError(f"{file}:{line}: {message}", hint=hint)

    # -- helpers ---------------------------------------------------------------------------------

    def _match_brackets(self) -> dict[int, int]:
        stack: list[int] = []
        partner: dict[int, int] = {}
        for index, token in enumerate(self.tokens):
            if token.text in _OPEN and token.kind == "punctuation":
                stack.append(index)
            elif token.text in _CLOSE and token.kind == "punctuation" and stack:
                if self.tokens[stack[-1]].text != _CLOSE[token.text]:
                    continue
                opening = stack.pop()
                partner[opening] = index
                partner[index] = opening
        return partner

    def _is(self, index: int, text: str) -> bool:
        return 0 <= index < len(self.tokens) and self.tokens[index].text == text

    def _closing(self, index: int) -> int:
        if index not in self._partner:
            raise self.error(index, f"no closing {_OPEN[self.tokens[index].text]!r}")
        return self._partner[index]

    def _replace(self, first: int, last: int, text: str) -> None:
        start, end = self.tokens[first].start, self.tokens[last].end
        if MARKER.search(self.text, start, end):
            # a macro from a header was expanded in here, under line markers of its own
            file, line = self.lines.where(end)
            self.edits.append(Edit(start, end, f"{text}\n# {line} {literal(file)}\n"))
        else:
            self.edits.append(Edit(start, end, text + "\n" * self.text.count("\n", start, end)))

    def _insert(self, offset: int, text: str) -> None:
        self.edits.append(Edit(offset, offset, text))

    def _source(self, first: int, last: int) -> str:
        return " ".join(token.text for token in self.tokens[first : last + 1])

    def _site(self, index: int) -> str:
        file, line = self.lines.where(self.tokens[index].start)
        return f"{literal(file)}, {line}"

    def _apply(self) -> str:
        out: list[str] = []
        position = 0
        for edit in sorted(self.edits, key=lambda edit: (edit.start, edit.end)):
            if edit.start < position:
                continue  # inside a stretch that was replaced as a whole
            out += (self.text[position : edit.start], edit.text)
            position = edit.end
        return "".join((*out, self.text[position:]))

    def _angle_open(self, index: int) -> int:
        """The ``<`` that the ``>`` at ``index`` closes."""
        depth = 0
        while index >= 0:
            text = self.tokens[index].text
            if text in _CLOSE:
                index = self._partner.get(index, 0)
            elif text == ">":
                depth += 1
            elif text in ("<", "<<"):
                depth -= len(text)
                if depth <= 0:
                    return index
            elif text in (";", "{", "}"):
                break
            index -= 1
        raise self.error(max(index, 0), "can't find the start of the template arguments before '<<<'")

    # -- kernel<<<grid, block, bytes, stream>>>(arguments) ---------------------------------------

    def _launch(self, opening: int) -> None:
        first, name = self._callee(opening)
        close = self._launch_close(opening)
        if not self._is(close + 3, "("):
            raise self.error(opening, "a launch needs its arguments: kernel<<<…>>>(…)")
        self._insert(
            self.tokens[first].start,
            f"::gates_emulator::launch({literal(name)}, {self._site(opening)}, [&](auto&... gates_arguments) -> void {{ ",
        )
        self._replace(opening, opening, "(gates_arguments...); }, ::gates_emulator::Config(")
        self._replace(close, close + 2, "))")

    def _callee(self, opening: int) -> tuple[int, str]:
        """First token and base name of the kernel expression that ends before ``opening``."""
        index = opening - 1
        if self._is(index, ">"):
            index = self._angle_open(index) - 1
        if self._is(index, ")"):  # (pointer)<<<…>>>
            return self._closing_start(index), self._source(self._closing_start(index) + 1, index - 1)
        if index < 0 or self.tokens[index].kind != "identifier":
            raise self.error(opening, "can't read the kernel before '<<<'")
        name = self.tokens[index].text
        if self._is(index - 1, "template"):
            index -= 1
        while self._is(index - 1, "::") or self._is(index - 1, ".") or self._is(index - 1, "->"):
            index -= 1
            if self._is(index - 1, ">"):
                index = self._angle_open(index - 1)
            if index > 0 and self.tokens[index - 1].kind == "identifier" and not self._is(index - 1, "return"):
                index -= 1
        return index, name

    def _closing_start(self, index: int) -> int:
        if index not in self._partner:
            raise self.error(index, "unbalanced brackets")
        return self._partner[index]

    def _launch_close(self, opening: int) -> int:
        index = opening + 1
        while index < len(self.tokens):
            text = self.tokens[index].text
            if text in _OPEN and self.tokens[index].kind == "punctuation":
                index = self._closing(index)
            elif text == ">" and self._is(index + 1, ">") and self._is(index + 2, ">"):
                return index
            elif text in (";", "}"):
                break
            index += 1
        raise self.error(opening, "'<<<' without '>>>'")

    # -- __global__ void kernel(…) { … } -----------------------------------------------------------

    def _kernel(self, start: int) -> None:
        self._replace(start, start, "")
        bounds = "0"
        index = start + 1
        while index < len(self.tokens):
            token = self.tokens[index]
            if token.text in (";", "{", "}", "="):
                raise self.error(start, "can't read the function after __global__")
            if token.text == "(":
                closing = self._closing(index)
                if self.tokens[index - 1].text not in _SPECIFIER_CALLS:
                    break
                if self._is(index - 1, "__launch_bounds__"):
                    bounds = self._first_argument(index, closing)
                    self._replace(index - 1, closing, "")
                index = closing
            index += 1
        name_index = index - 1
        if self._is(name_index, ">"):
            name_index = self._angle_open(name_index) - 1
        name = self.tokens[name_index].text
        body = self._closing(index) + 1
        while body < len(self.tokens) and self.tokens[body].text not in ("{", ";"):
            body += 1
        if self._is(body, "{"):
            self._insert(
                self.tokens[body].end,
                f" static ::gates_emulator::KernelEntry gates_kernel_entry{{{literal(name)}, {self._site(name_index)}, "
                f"static_cast<unsigned>({bounds})}}; if (::gates_emulator::enter(gates_kernel_entry)) return; ",
            )

    def _first_argument(self, opening: int, closing: int) -> str:
        index = opening + 1
        while index < closing and not self._is(index, ","):
            index = self._partner[index] if self.tokens[index].text in _OPEN else index
            index += 1
        return self._source(opening + 1, index - 1)

    # -- __shared__ T name[…]; and extern __shared__ T name[]; -------------------------------------

    def _shared(self, keyword: int) -> None:
        first, last = self._declaration(keyword)
        if not self._inside_function(first):
            raise self.error(keyword, "__shared__ outside a function is not supported by the emulator",
                             "declare it in the kernel, or in the function that uses it")
        words = [i for i in range(first, last) if self.tokens[i].text not in ("__shared__", "static", "extern")]
        external = any(self._is(i, "extern") for i in range(first, last))
        pieces = self._declarators(words, keyword)
        out: list[str] = []
        for specifier, declarator, name in pieces:
            self._count += 1
            out.append(
                self._dynamic(specifier, declarator, name) if external
                else self._static(specifier, declarator, name, self._site(keyword))
            )
        self._replace(first, last, " ".join(out))

    def _declaration(self, keyword: int) -> tuple[int, int]:
        first = keyword
        while first > 0 and self.tokens[first - 1].text not in (";", "{", "}", ")", ":"):
            first -= 1
        last = keyword
        while last < len(self.tokens) and not self._is(last, ";"):
            last = self._closing(last) if self.tokens[last].text in _OPEN else last
            last += 1
        if last == len(self.tokens):
            raise self.error(keyword, "__shared__ declaration without ';'")
        return first, last

    def _inside_function(self, index: int) -> bool:
        """Some brace around ``index`` is not that of a namespace or of ``extern "C"``."""
        for opening, closing in self._partner.items():
            if self._is(opening, "{") and opening < index < closing and not self._is_namespace(opening):
                return True
        return False

    def _is_namespace(self, brace: int) -> bool:
        index = brace - 1
        if index > 0 and self.tokens[index].kind == "string":
            return self._is(index - 1, "extern")
        while index >= 0 and (self.tokens[index].kind == "identifier" or self._is(index, "::")):
            if self._is(index, "namespace"):
                return True
            index -= 1
        return False

    def _declarators(self, words: list[int], keyword: int) -> list[tuple[str, str, str]]:
        """(specifier, declarator, name) of each variable: ``float a[4], b;`` has two."""
        groups: list[list[int]] = [[]]
        skip_to, angles = -1, 0
        for i in words:
            if i <= skip_to:
                groups[-1].append(i)
                continue
            text = self.tokens[i].text
            if text in _OPEN:
                skip_to = self._closing(i)
            angles += (text == "<") - (text == ">")
            if text == "," and angles == 0:
                groups.append([])
            else:
                groups[-1].append(i)
        name_at = self._name_position(groups[0], keyword)
        specifier = [i for i in groups[0][:name_at] if not self._is(i, "*")]
        split = len(specifier)
        pieces = []
        for number, group in enumerate(groups):
            declarator = group[split:] if number == 0 else group
            name = self.tokens[declarator[self._name_position(declarator, keyword)]].text
            pieces.append((" ".join(self.tokens[i].text for i in specifier),
                           " ".join(self.tokens[i].text for i in declarator), name))
        return pieces

    def _name_position(self, group: list[int], keyword: int) -> int:
        """Position in ``group`` of the declared name: the last identifier outside all brackets."""
        found, skip_to = -1, -1
        for position, i in enumerate(group):
            if i <= skip_to:
                continue
            text = self.tokens[i].text
            if text == "=":
                raise self.error(keyword, "a __shared__ variable can't have an initialiser")
            if text in _OPEN:
                skip_to = self._closing(i)
            elif self.tokens[i].kind == "identifier" and not self._is(i + 1, "("):
                found = position
        if found < 0:
            raise self.error(keyword, "can't read this __shared__ declaration")
        return found

    def _static(self, specifier: str, declarator: str, name: str, site: str) -> str:
        kind, slot = f"gates_shared_{self._count}", f"gates_slot_{self._count}"
        return (
            f"struct {kind} {{ {specifier} {declarator}; }}; "
            f"static ::gates_emulator::SharedSlot {slot}{{{literal(name)}, {site}}}; "
            f"auto& {name} = ::gates_emulator::shared_variable<{kind}>({slot}).{name};"
        )

    def _dynamic(self, specifier: str, declarator: str, name: str) -> str:
        kind = f"gates_dynamic_{self._count}"
        return (
            f"typedef {specifier} {declarator.replace(name, kind, 1) if declarator.count(name) == 1 else kind + '[]'}; "
            f"{kind}& {name} = ::gates_emulator::dynamic_shared<{kind}>();"
        )
