"""An exhibit of a report: a chart, what it shows, its definition and its table."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, final
from urllib.parse import quote

import pandas as pd
from markupsafe import Markup

from tallyveil.nouns.schema import DETAILED, TOTAL, factors_of, row_labels
from tallyveil.privacy.sentences import loss_in_table
from tallyveil.release.certificate_page import persons
from tallyveil.report.internal import INTERNAL_CELL
from tallyveil.report.theme import STATIC_WIDTH, themed

WHOLE = 20  # from which numbers in a table have no decimals
SHOWN = 60  # rows of a table on the page; the CSV has all


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Exhibit:
    """A chart with its words and its numbers.

    Attributes
    ----------
    key
        Its name in the page and of its CSV file.
    title, says
        The heading, and what the chart shows in a sentence or two.
    alt
        What the chart looks like, for those who cannot see it.
    definition
        How its numbers are defined.
    chart
        An Altair chart of one view, which gets the width of the page.
    table
        The numbers, at full precision.
    headings
        The columns to show, with readable names.
    words
        How the page writes the values of some columns, where the CSV has names that programs read.
    internal
        Whether it was made from the truth.
    static_width
        Width of the drawing that paper gets.
    """

    key: str
    title: str
    says: str
    alt: str
    definition: str
    chart: Any
    table: pd.DataFrame
    headings: Mapping[str, str]
    words: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)
    internal: bool = False
    static_width: int = STATIC_WIDTH

    @property
    def drawing(self) -> Markup:
        """The chart as SVG, for paper and for pages without scripts."""
        import vl_convert

        spec = themed(self.chart.properties(width=self.static_width)).to_dict()
        return Markup(vl_convert.vegalite_to_svg(spec))

    @property
    def spec(self) -> Markup:
        """The chart as Vega-Lite in JSON that can stand inside a script element."""
        spec = themed(self.chart.properties(width="container")).to_dict()
        return as_script(spec)

    @property
    def csv(self) -> str:
        """The table as the address of a CSV file."""
        written = self.table.assign(internal=INTERNAL_CELL) if self.internal else self.table
        return "data:text/csv;charset=utf-8," + quote(written.to_csv(index=False))

    @property
    def rows(self) -> list[list[str]]:
        """The first rows of the table as text."""
        names = list(self.headings)
        first = self.table[names].head(SHOWN).to_numpy()
        return [[self._cell(name, value) for name, value in zip(names, row, strict=True)] for row in first]

    def _cell(self, column: str, value: Any) -> str:
        """A value as the page shows it; a loss is rounded up."""
        if column in self.words:
            return self.words[column](value)
        return loss_in_table(value) if column == "epsilon" else shown(value)

    @property
    def hidden(self) -> int:
        """The number of rows that only the CSV has."""
        return max(len(self.table) - SHOWN, 0)

    @property
    def numeric(self) -> list[bool]:
        """Which of the shown columns are numbers."""
        return [self.table[name].dtype.kind in "iuf" for name in self.headings]


def as_script(value: Any) -> Markup:
    """JSON that no text in it can break out of a script element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def shown(value: Any) -> str:
    """A value as people read it: thousands apart, three digits that count, a dash for what is missing.

    >>> [shown(v) for v in (12345, 0.01234, 5.0, 88.6, 1234.5, float("nan"), "county")]
    ['12,345', '0.0123', '5', '89', '1,234', '–', 'county']
    """
    if value is None or value is pd.NA or (isinstance(value, float) and value != value):
        return "\N{EN DASH}"
    if isinstance(value, str):
        return value
    if float(value) == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= WHOLE else f"{value:.3g}"


def people(value: float) -> str:
    """A number of people to two digits that count, without decimals where it is whole.

    >>> people(0), people(6.0), people(6.04), people(3.26), people(1234.5), people(0.04)
    ('0', '6', '6', '3.3', '1,200', 'less than 0.1')
    """
    return "0" if value == 0 else persons(value).removesuffix(".0")


def a(noun: str) -> str:
    """A noun with its article, as far as its first letter tells.

    >>> a("block_group"), a("enumdist"), a("établissement")
    ('a block group', 'an enumdist', 'an établissement')
    """
    first = unicodedata.normalize("NFD", noun)[:1].lower()
    return f"{'an' if first and first in 'aeio' else 'a'} {plain(noun)}"


def query_words(query: str) -> str:
    """What a query counts by.

    >>> query_words("age * sex"), query_words("detailed"), query_words("total")
    ('age, sex', 'all attributes', 'total')
    """
    return "all attributes" if query == DETAILED else plain(", ".join(factors_of(query))) or TOTAL


def cell_words(labels: str, attributes: int) -> str:
    r"""A cell as people read it: its labels in a list.

    >>> cell_words("M*25-64*desempregado", 3), cell_words(r"A\*f*yes", 2), cell_words("A*", 1)
    ('M, 25-64, desempregado', 'A*f, yes', 'A*')
    """
    return labels if attributes <= 1 else ", ".join(row_labels(labels))


def plain(level: str) -> str:
    """A level in a sentence: block_group is a block group."""
    return level.replace("_", " ")


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows for a chart: what is missing is null, and numbers are those of Python."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict(orient="records")
    return [{name: value.item() if hasattr(value, "item") else value for name, value in row.items()} for row in rows]
