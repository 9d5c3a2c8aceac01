"""Random messy tables of known people: languages, encodings, totals at several levels, empty cells, codes, shares."""

from dataclasses import dataclass
from itertools import product

import numpy as np

# Words for region, district, sex, age, count and total, then for two sexes.
LANGUAGES = {
    "pl": ("Województwo", "Przychodnia", "Płeć", "Wiek", "Liczba", "Ogółem", "Kobiety", "Mężczyźni", "cp1250"),
    "cs": ("Kraj", "Okres", "Pohlaví", "Věk", "Počet", "Celkem", "ženy", "muži", "cp1250"),
    "hu": ("Megye", "Járás", "Nem", "Életkor", "Fő", "Összesen", "nő", "férfi", "iso8859-2"),
    "de": ("Land", "Kreis", "Geschlecht", "Alter", "Anzahl", "Insgesamt", "weiblich", "männlich", "cp1252"),
    "fr": ("Région", "Commune", "Sexe", "Âge", "Effectif", "Ensemble", "femmes", "hommes", "cp1252"),
    "ru": ("Область", "Район", "Пол", "Возраст", "Население", "Всего", "женщины", "мужчины", "cp1251"),  # noqa: RUF001
    "ja": ("都道府県", "市区町村", "性別", "年齢", "人口", "総数", "女", "男", "shift_jis"),
    "xx": ("Qov", "Zelt", "Brak", "Murn", "Tolp", "Vrump", "fla", "mro", "utf-8"),  # a language that nobody knows
}
AGES = ("0-14", "15-64", "65+")


@dataclass(frozen=True, kw_only=True)
class Messy:
    """A file, what it was made with, and its people by region, district, sex and age."""

    content: bytes
    made_with: dict
    counts: np.ndarray  # region, district, sex, age

    @property
    def is_ambiguous(self):
        """Whether the same people are counted at two times, so that no reading of the table is right."""
        times = {
            "two years": self.made_with["layout"] != "persons",
            "year columns": self.made_with["layout"] == "totals",
        }
        return times.get(self.made_with["extra"], False)

    @property
    def districts(self):
        """The people of each district that has any."""
        return sorted(n for n in self.counts.sum(axis=(2, 3)).ravel().tolist() if n)


def random_table(rng):
    """A random table of known people, as an office might publish it."""
    pick = lambda *choices: choices[rng.integers(len(choices))]  # noqa: E731
    made = {
        "language": pick(*LANGUAGES),
        "layout": pick("long", "wide", "wide", "mixed", "products", "totals", "persons"),
        "encoding": pick("utf-8", "utf-8-sig", "utf-16", "own"),
        "nil": pick("0", "0", "", "-", ".."),
        "thousands": pick("", "", " ", "\u00a0", ".", ","),
        "grand_total": pick(None, None, "top", "bottom"),
        "subtotals": pick(False, False, True),
        "total_column": pick(None, "first", "last"),
        "sex_totals": pick(False, True),
        "label_totals": pick(False, False, True),
        "share": pick(False, True),
        "codes": pick("names", "names", "numbers", "repeated", "both"),
        "merged": pick(False, False, True),
        "year": pick(False, False, True),
        "area": pick(False, False, False, True),
        "largest": pick(4, 30, 400, 5_000),
        "regions": int(rng.integers(2, 6)),
        "districts": int(rng.integers(2, 12)),
        "separator": pick(",", ";", "\t"),
        "extra": pick(None, None, None, "households", "whole share", "rank", "two years", "year columns"),
        "margins": pick(False, False, True),
        "sets": pick(False, False, True),
        "named": pick(False, True),
        "ages": pick(False, True),
    }
    counts = rng.integers(0, made["largest"], (made["regions"], made["districts"], 2, 3))
    counts[rng.random(counts.shape) < pick(0, 0.2, 0.7)] = 0
    if made["layout"] == "persons":
        counts %= 9
    if counts.sum() == 0:
        counts[0] = 3
    return Messy(content=_written(_Maker(counts, made, rng).rows(), made), made_with=made, counts=counts)


class _Maker:
    """Rows of a table as they were chosen to be."""

    def __init__(self, counts, made, rng):
        self.counts, self.rng, self.made = counts, rng, made
        self.region, self.district, self.sex, self.age, self.count, self.total, *sexes, _ = LANGUAGES[made["language"]]
        self.sexes, self.layout, self.everyone = sexes, made["layout"], counts.sum()

    def header(self):
        """The names of columns."""
        made = self.made
        numbered = made["codes"] == "both"
        names = [self.region, f"{self.district} kod", self.district] if numbered else [self.region, self.district]
        names += ["Rok"] if made["year"] or made["extra"] == "two years" else []
        names += {"persons": [self.sex, self.age], "long": [self.sex, self.age, self.count], "mixed": [self.sex]}.get(
            self.layout, []
        )
        names += [] if self.layout in ("persons", "long") else self.cell_names()
        extra = {"households": "Haus", "whole share": "Prz", "rank": "Rang"}.get(made["extra"])
        names += ["%"] * made["share"] + ["km2"] * made["area"] + ([extra] if extra else [])
        return [name for name in names if self.layout != "persons" or name not in ("%", "km2", extra)]

    def cell_names(self):
        """The names of the columns of counts."""
        made, some = self.made, [self.total] if self.made["sex_totals"] else []
        if self.layout == "totals":
            return ["2011", "2021"] if made["extra"] == "year columns" else [self.count]
        names = list(self.sexes) if self.layout == "wide" else list(AGES)
        if self.layout == "products":
            names = [f"{s} {a}" for s in self.sexes for a in [*AGES, *some]]
            names += [f"{self.total} {a}" for a in AGES] if made["margins"] else []
        if self.layout == "wide" and made["sets"]:
            names += AGES
        return self._with_total(names, self.total)

    def cells(self, table):
        """The counts of one row, from a table of sex by age."""
        made = self.made
        if self.layout == "totals":
            return [table.sum(), table.sum() + 5] if made["extra"] == "year columns" else [table.sum()]
        if self.layout == "mixed":
            return self._with_total(table.tolist(), table.sum())
        if self.layout == "wide":
            numbers = [*table.sum(axis=1), *(table.sum(axis=0) if made["sets"] else [])]
            return self._with_total(numbers, table.sum())
        numbers = [n for row in table for n in [*row, *([row.sum()] if made["sex_totals"] else [])]]
        return self._with_total([*numbers, *(table.sum(axis=0) if made["margins"] else [])], table.sum())

    def _with_total(self, parts, whole):
        column = self.made["total_column"]
        return [*([whole] if column == "first" else []), *parts, *([whole] if column == "last" else [])]

    def lines(self, labels, table, size):
        """The rows of one unit, or of a sum of units."""
        times = ["2011", "2021"] if self.made["extra"] == "two years" else ["2021"] if self.made["year"] else [None]
        return [line for time in times for line in self._lines([*labels, *([time] if time else [])], table, size)]

    def _lines(self, first, table, size):
        if self.layout == "persons":
            keys = [*product(range(2), range(3))]
            return [[*first, self.sexes[s], self._age(a)] for s, a in keys for _ in range(table[s, a])]
        tables = {**dict(zip(self.sexes, table, strict=True)), self.total: table.sum(axis=0)}
        rows = list(tables)[: 2 + self.made["label_totals"]]
        if self.layout == "long":
            counts = [([s, a], tables[s][i]) for s in rows for i, a in enumerate(AGES)]
            return [[*first, *key, n, *self._others(n, size)] for key, n in counts]
        if self.layout == "mixed":
            return [[*first, s, *self.cells(tables[s]), *self._others(tables[s].sum(), size)] for s in rows]
        return [[*first, *self.cells(table), *self._others(table.sum(), size)]]

    def _age(self, place):
        low = (0, 15, 65)[place]
        return str(int(self.rng.integers(low, low + 15))) if self.made["ages"] else AGES[place]

    def _others(self, people, size):
        """Numbers beside the counts: a share, an area, households, a rank."""
        share = 100 * people / self.everyone
        extra = {"households": people // 3, "whole share": round(share), "rank": self.rng.integers(1, 60)}
        found = [f"{share:.2f}".replace(".", ",")] * self.made["share"] + [str(size)] * self.made["area"]
        return [*found, *([extra[self.made["extra"]]] if self.made["extra"] in extra else [])]

    def place(self, r, d):
        """The codes or names of a district and its region."""
        first, name = f"{self.region[:3]}-{chr(65 + r)}", f"Zel{'bcdfghklmn'[r]}{'aeiouyaeiouy'[d]}{'rstvz'[d % 5]}"
        return {
            "names": [first, name],
            "numbers": [str(r + 1), str(100 * (r + 1) + d)],
            "repeated": [first, str(d + 1)],
            "both": [first, f"{r + 1}{d:02}", name],
        }[self.made["codes"]]

    def rows(self):
        """All rows, with totals where they were chosen to be."""
        made, body, wide = self.made, [], len(self.place(0, 0)) - 1
        grand = None if self.layout == "persons" else made["grand_total"]
        everywhere = self.lines([self.total, *[""] * wide], self.counts.sum(axis=(0, 1)), 9_000)
        body += everywhere if grand == "top" else []
        for r in range(len(self.counts)):
            for d in range(self.counts.shape[1]):
                found = self.lines(self.place(r, d), self.counts[r, d], int(self.rng.integers(20, 400)))
                if made["merged"] and self.layout != "persons":
                    found = [[*([""] if d or i else row[:1]), *row[1:]] for i, row in enumerate(found)]
                body += found
            first = self.place(r, 0)[0]
            labels = (
                [f"{self.total} {first}", *[""] * wide] if made["named"] else [first, self.total, *[""] * (wide - 1)]
            )
            if made["subtotals"] and self.layout != "persons":
                body += self.lines(labels, self.counts[r].sum(axis=0), 900)
        return [self.header(), *body, *(everywhere if grand == "bottom" else [])]


def _written(rows, made):
    def text(value):
        if isinstance(value, str):
            return value
        return made["nil"] if value == 0 else f"{int(value):,}".replace(",", made["thousands"])

    mark = made["separator"] if made["thousands"] != made["separator"] and made["separator"] != "," else ";"
    lines = [mark.join(map(text, row)) for row in rows]
    own = LANGUAGES[made["language"]][-1] if made["encoding"] == "own" else made["encoding"]
    content = "\r\n".join(lines) + "\r\n"
    try:
        return content.encode(own)
    except UnicodeEncodeError:
        return content.encode("utf-8")
