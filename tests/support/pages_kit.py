"""Names that could act on a page, records full of them, and what a renderer makes of Markdown that holds them."""

from __future__ import annotations

import dataclasses
import html
import re
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

NAMES = (
    "void k<(A|B)>(float*)",
    "a|b",
    "<img src=x onerror=alert(1)>",
    "`x` [y](http://z)",
    "two\nlines",
    "back\\slash|",
    "[x]: http://z",
    "![](http://z)",
    "@everyone and @org/team",
    "fixes #12, org/repo#3, GH-4",
    "https://z.example www.z.example a@z.example <https://z>",
    "~~gone~~ **loud** _soft_ $x$",
    "# merge",
    "- merge",
    "</details><!-- end -->",
    "\x1b[2J\u202emerge\u2066",
    "&#64;everyone &lt;b&gt;",
    "\n\n# merge\n\n```sh\n",
    "__global__ __init__",
)
_BLOCKS = {
    "heading",
    "paragraph",
    "bullet_list",
    "ordered_list",
    "list_item",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "fence",
    "html_block",
    "inline",
}
_INLINE = {"text", "strong", "code_inline", "softbreak"}
_KEPT = (
    "mode",
    "gated_mode",
    "side",
    "stopped",
    "shape",
    "status",
    "kind",
    "role",
    "schema_version",
    "started",
    "gate",
    "code",
    "arch",
    "path",
)
_ACTS = re.compile(r"@\w|#\d|\bGH-\d|[^\n\t\u200b -\U0010ffff]|[\x7f-\x9f\u202a-\u202e\u2066-\u2069]", re.I)
_ADDRESS = re.compile(r"://|\bwww\.", re.I)  # a link even without brackets


def poisoned(value: Any, name: str) -> Any:
    """``value``, a record or data, with ``name`` as every text in it but those that name a case of the code."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value) if field.init and field.name not in _KEPT]
        return dataclasses.replace(value, **{field: poisoned(getattr(value, field), name) for field in fields})
    if isinstance(value, dict):
        return {key: poisoned(item, name) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(poisoned(item, name) for item in value)
    return name if type(value) is str and value else value


def check_markdown(page: str) -> str:
    """Fail if the page links, mentions, embeds or holds any tag but a fold's; return its visible text."""
    words: list[str] = []
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(page):
        assert _kind(token) in _BLOCKS, token
        if token.type == "html_block":
            assert re.fullmatch(r"<details><summary>[^<>]*</summary>\n*|</details>\n*", token.content), token.content
            words.append(html.unescape(token.content))
        if token.type == "fence":
            words.append(token.content)
        for child in token.children or ():
            assert _kind(child) in _INLINE, child
            words.append(child.content)
            assert child.type == "code_inline" or not _ACTS.search(child.content), child.content
    source = re.sub(r"```.*?```|`[^`\n]*`|<summary>.*?</summary>", "", page, flags=re.S)  # in which no address becomes a link
    assert not _ADDRESS.search(source), source
    return " ".join(words).replace("\u200b", "")


def _kind(token: Token) -> str:
    return token.type.removesuffix("_open").removesuffix("_close")
