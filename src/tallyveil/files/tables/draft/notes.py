"""Comments in a draft: each stands above the line that it concerns, or beside one item of a list."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import tomli_w


@dataclass(frozen=True, kw_only=True)
class Note:
    """A comment on a field, such as ``("geography", "levels")``, or on one item of its list or table."""

    field: tuple[str, ...]
    text: str
    item: str | None = None


def commented(toml: str, notes: Iterable[Note]) -> str:
    r"""TOML text with comments. Those on fields that it does not have come last.

    >>> print(commented('[a]\nb = 1\n', [Note(field=("a", "b"), text="why")]), end="")
    [a]
    # why
    b = 1
    """
    above: dict[str, list[str]] = {}
    beside: dict[tuple[str, str], list[str]] = {}
    for note in notes:
        place = ".".join(map(toml_key, note.field))
        words = re.sub(r"[\x00-\x1f\x7f]+", " ", note.text)
        if note.item is None:
            above.setdefault(place, []).append(words)
        else:
            beside.setdefault((place, _string(note.item)), []).append(words)
    lines, section, field = list[str](), "", ""
    for line in toml.removesuffix("\n").split("\n"):
        item = line.strip().removesuffix(",")
        if header := re.fullmatch(r"\[([^\[].*)\]", line):
            section = field = header[1]
        elif key := re.match(r'("(?:[^"\\]|\\.)*"|[A-Za-z0-9_-]+) = ', line):
            field, item = f"{section}.{key[1]}", _quoted(key[1])
        if not line.startswith((" ", "]")):
            lines += [f"# {words}" for words in above.pop(field, [])]
        remarks = beside.pop((field, item), None) or beside.pop((section, item), [])
        lines.append("  # ".join([line, "; ".join(remarks)]) if remarks else line)
    left = [words for found in (*above.values(), *beside.values()) for words in found]
    return "\n".join([*lines, *(f"# {words}" for words in left)]) + "\n"


def toml_key(name: str) -> str:
    """A name as TOML writes it to the left of an equals sign."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _string(name)


def _quoted(key: str) -> str:
    return key if key.startswith('"') else f'"{key}"'


def _string(text: str) -> str:
    """A text as TOML writes it."""
    return tomli_w.dumps({"a": text}).removeprefix("a = ").strip()
