"""Pages as statements: sentences and rows of tables, each with its heading and the heads of its columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser

BLOCKS = {
    "p",
    "div",
    "li",
    "h1",
    "h2",
    "h3",
    "h4",
    "caption",
    "summary",
    "title",
    "ul",
    "ol",
    "section",
    "dd",
    "dt",
    "figcaption",
    "tr",
    "table",
}
SKIPPED = {"style", "script", "svg"}
# a sentence ends where a capital follows; a colon does not end it
END = re.compile(r"(?<=[.!?]) (?=[A-Z0-9(“])")


@dataclass(frozen=True)
class Statement:
    """A sentence, or a row of a table with its cells; `before` are the statements above it in the same section."""

    page: str
    text: str
    section: str = ""
    cells: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    before: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


def statements(page: str, text: str) -> list[Statement]:
    """All statements of a page, HTML or plain text."""
    if "<html" in text[:500].lower() or "<!doctype" in text[:500].lower():
        reader = _Html(page)
        reader.feed(text)
        return reader.finished()
    return _plain(page, text)


def _clean(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


class _Html(HTMLParser):
    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.page, self.found = page, []
        self.text, self.section, self.hidden, self.cell = "", "", 0, False
        self.cells: list[str] = []
        self.heads: tuple[str, ...] = ()
        self.before: list[str] = []
        self.head_row = True

    def handle_starttag(self, tag, _attrs):
        if tag in SKIPPED:
            self.hidden += 1
        elif tag in ("td", "th"):
            self._flush()
            self.cell, self.text = True, ""
            self.head_row &= tag == "th"
        elif tag in BLOCKS and not self.cell:
            self._flush()
        elif self.cell:
            self.text += " "
        if tag == "tr":
            self.cells, self.head_row = [], True
        if tag == "table":
            self.heads = ()

    def handle_endtag(self, tag):
        if tag in SKIPPED:
            self.hidden -= 1
        elif tag in ("td", "th"):
            self.cells.append(_clean(self.text))
            self.text, self.cell = "", False
        elif tag == "tr" and self.cells:
            self._row()
        elif tag in ("h1", "h2", "h3", "h4"):
            self.section, self.before = _clean(self.text), []
            self._flush()
        elif tag in BLOCKS and not self.cell:
            self._flush()

    def handle_data(self, data):
        if not self.hidden:
            self.text += data if self.cell else data + " "

    def _row(self) -> None:
        cells = tuple(self.cells)
        self.cells = []
        if self.head_row and not self.heads and len(cells) > 1:
            self.heads = cells
        # a table may only lay out a text: a title beside sentences
        if len(cells) == 2 and not self.heads and len(cells[1].split()) > 12:
            self.section, self.before = cells[0], []
            self._say(cells[1])
            return
        self._add(" | ".join(cells), cells)

    def _flush(self) -> None:
        if not self.cell:
            self._say(self.text)
            self.text = ""

    def _say(self, text: str) -> None:
        for sentence in END.split(_clean(text)):
            if sentence:
                self._add(re.sub(r" ([.,:;])", r"\1", sentence), ())

    def _add(self, text: str, cells: tuple[str, ...]) -> None:
        self.found.append(
            Statement(self.page, text, self.section, cells, self.heads if cells else (), tuple(self.before))
        )
        self.before.append(text)

    def finished(self) -> list[Statement]:
        self._flush()
        return self.found


def _plain(page: str, text: str) -> list[Statement]:
    """Lines of a terminal; columns are at least two blanks apart."""
    found: list[Statement] = []
    section, heads, before = "", (), []
    for line in text.splitlines():
        cells = tuple(part.strip() for part in re.split(r"\s{2,}", line.strip()) if part.strip())
        if not cells:
            heads, before = (), []
            continue
        if len(cells) > 1:
            heads = heads or cells
            found.append(Statement(page, " | ".join(cells), section, cells, heads, tuple(before)))
        elif line.startswith(" ") or len(END.split(cells[0])) > 1 or cells[0].endswith("."):
            found += [Statement(page, sentence, section, (), (), tuple(before)) for sentence in END.split(cells[0])]
        else:
            section = cells[0]
            found.append(Statement(page, section, section))
        before.append(cells[0])
    return found
