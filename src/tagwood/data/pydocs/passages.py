"""Cut a docstring into passages: summary, paragraphs, one per parameter and return value, notes, examples.

In: a docstring (numpydoc sections or plain text). Out: the passages as plain text, and the names of its "See
Also" section, which are labels and therefore not text.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import NamedTuple

_ITEM_SECTIONS = {
    *("parameters", "other parameters", "returns", "yields", "receives", "raises", "warns", "attributes"),
    *("methods", "arguments", "keyword arguments"),
}
_DROPPED_SECTIONS = {"references", "see also", "references and notes"}
_MAX_WORDS = 150
_MIN_WORDS = 5
_UNDERLINE = re.compile(r"^\s*([-=~^])\1{2,}\s*$")
_ROLE = re.compile(r":[a-z:]+:`~?([^`<]*?)(?:\s*<[^`>]*>)?`")
_CITATION = re.compile(r"\s*\[[A-Za-z0-9]+\]_")
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_SIGNATURE = re.compile(r"^[\w.]+\(.*\)( -+> .*)?$")
_FIELD = re.compile(r"^(:\w+|- |\* |\d+[.)] )")
_TEMPLATE = re.compile(r"%\(\w+\)s")


class Passages(NamedTuple):
    """What a docstring says, and what it points to."""

    texts: list[str]
    see_also: list[str]


def cut(docstring: str) -> Passages:
    r"""Return the passages of a docstring and the names in its "See Also" section.

    Examples
    --------
    >>> doc = '''Smooth a series.
    ...
    ... Parameters
    ... ----------
    ... width : int
    ...     How many numbers to take.
    ...
    ... See Also
    ... --------
    ... sharpen : The opposite.
    ... '''
    >>> cut(doc)
    Passages(texts=['Smooth a series.', 'width : int How many numbers to take.'], see_also=['sharpen'])
    """
    texts: list[str] = []
    see_also: list[str] = []
    for title, lines in _sections(inspect.cleandoc(docstring)):
        if title == "see also":
            see_also += _names(lines)
        elif title not in _DROPPED_SECTIONS:
            if title in _ITEM_SECTIONS:
                blocks = _items(lines)
            else:
                blocks = _examples(lines) if title.startswith("example") else _paragraphs(lines)
            texts += [text for text in map(_clean, blocks) if _tells(text, summary=not texts)]
    return Passages(texts, list(dict.fromkeys(see_also)))


def _sections(docstring: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (title in lower case, lines); the first section has no title."""
    title, lines = "", list[str]()
    for line in docstring.splitlines():
        if _UNDERLINE.match(line) and lines and lines[-1].strip():
            head = lines.pop()
            yield title, lines
            title, lines = head.strip().rstrip(":").lower(), []
        elif not _UNDERLINE.match(line):
            lines.append(line)
    yield title, lines


def _paragraphs(lines: list[str]) -> Iterator[list[str]]:
    """Yield the blocks between blank lines; list entries and fields start blocks, directives are left out."""
    block: list[str] = []
    directive = False
    for line in [*lines, ""]:
        text = line.strip()
        if text.startswith(".. ") or (directive and text and line[0] == " "):
            directive, text = True, ""
        elif text:
            directive = False
        if not text or (block and _FIELD.match(text)):
            if block:
                yield block
            block = []
        if text:
            block.append(text)


def _items(lines: list[str]) -> Iterator[list[str]]:
    """Yield one block per entry of a parameter list: an entry starts without indent."""
    block: list[str] = []
    for line in lines:
        if line.strip() and line[0] != " " and block:
            yield block
            block = []
        if line.strip() and not line.strip().startswith(".. "):
            block.append(line.strip())
    if block:
        yield block


def _examples(lines: list[str]) -> Iterator[list[str]]:
    """Yield blocks of prose with the code below it; what the code prints is left out."""
    block: list[str] = []
    printed = in_prose = False
    for line in lines:
        text = line.strip()
        if text.startswith((">>> ", "... ")):
            block.append(text[4:])
            printed, in_prose = True, False
        elif not text:
            printed = in_prose = False
        elif not printed and not text.startswith(".. "):
            if block and not in_prose:
                yield block
                block = []
            block.append(text)
            in_prose = True
    if block:
        yield block


def _names(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if line.strip() and line[0] != " ":
            for part in re.split(r"\s:(?:\s|$)", _ROLE.sub(r"\1", line), maxsplit=1)[0].split(","):
                name = part.strip().strip("`~.")
                if _NAME.fullmatch(name):
                    yield name


def _clean(block: list[str]) -> str:
    """Return a block as one line of plain text, without reStructuredText marks."""
    if block and _SIGNATURE.match(block[0]):
        block = block[1:]
    if any(line.startswith(">>> ") for line in block):
        block = [line[4:] for line in block if line.startswith((">>> ", "... "))]
    text = _CITATION.sub("", _ROLE.sub(r"\1", " ".join(block)))
    return " ".join(text.replace("`", "").replace("**", "").replace("::", ":").split()[:_MAX_WORDS])


def _tells(text: str, *, summary: bool) -> bool:
    words = [word for word in text.split() if any(map(str.isalpha, word))]
    return len(words) >= (3 if summary else _MIN_WORDS) and not _TEMPLATE.search(text)
