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
    "ru": ("Область", "Район", "Пол", "Возраст", "Население", "Всего", "женщины", "мужчины", "cp1251"),
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
    }
    counts = rng.integers(0, made["largest"], (made["regions"], made["districts"], 2, 3))
    counts[rng.random(counts.shape) < pick(0, 0.2, 0.7)] = 0
    if made["layout"] == "persons":
        counts %= 9
    if counts.sum() == 0:
        counts[0] = 3
    return Messy(content=_written(_rows(counts, made, rng), made), made_with=made, counts=counts)


def _rows(counts, made, rng):
    region, district, sex, age, count, total, women, men, _ = LANGUAGES[made["language"]]
    sexes, parts = (women, men), dict(made)
    places = [region, district] if made["codes"] != "both" else [region, f"{district} kod", district]
    more = (["Rok"] if parts["year"] else []), (["%"] if parts["share"] else []) + (["km2"] if parts["area"] else [])
    everyone = counts.sum()

    def place(r, d):
        if made["codes"] == "names":
            return [f"{region[:3]}-{chr(65 + r)}", f"Zel{'bcdfghklmn'[r]}{'aeiouyaeiouy'[d]}{'rstvz'[d % 5]}"]
        if made["codes"] == "numbers":
            return [str(r + 1), str(100 * (r + 1) + d)]
        if made["codes"] == "repeated":
            return [f"{region[:3]}-{chr(65 + r)}", str(d + 1)]
        return [
            f"{region[:3]}-{chr(65 + r)}",
            f"{r + 1}{d:02}",
            f"Zel{'bcdfghklmn'[r]}{'aeiouyaeiouy'[d]}{'rstvz'[d % 5]}",
        ]

    def cells(table):
        """The numbers of one row of a table of sex by age."""
        if parts["layout"] == "totals":
            return [table.sum()]
        if parts["layout"] == "wide":
            numbers = table.sum(axis=1).tolist()
        elif parts["layout"] == "mixed":
            numbers = table.tolist()
        else:
            numbers = [n for row in table for n in [*row, *([row.sum()] if parts["sex_totals"] else [])]]
        whole = [int(table.sum())]
        column = parts["total_column"]
        return [*(whole if column == "first" else []), *numbers, *(whole if column == "last" else [])]

    def names():
        if parts["layout"] == "totals":
            return [count]
        inner = list(sexes) if parts["layout"] == "wide" else list(AGES)
        if parts["layout"] == "products":
            inner = [f"{s} {a}" for s in sexes for a in [*AGES, *([total] if parts["sex_totals"] else [])]]
        column = parts["total_column"]
        return [*([total] if column == "first" else []), *inner, *([total] if column == "last" else [])]

    def lines(labels, table, size):
        """The rows of one unit, or of a sum of units."""
        year, share = (["2021"] if parts["year"] else []), lambda n: [f"{100 * n / everyone:.2f}".replace(".", ",")]
        rest = lambda n: (share(n) if parts["share"] else []) + ([str(size)] if parts["area"] else [])  # noqa: E731
        if parts["layout"] == "persons":
            each = [(s, a) for s, a in product(range(2), range(3)) for _ in range(table[s, a])]
            return [[*labels, *year, sexes[s], AGES[a]] for s, a in each]
        if parts["layout"] == "long":
            keys = [*product(range(2), range(3))]
            found = [[*labels, *year, sexes[s], AGES[a], table[s, a], *rest(table[s, a])] for s, a in keys]
            if parts["label_totals"]:
                found += [
                    [*labels, *year, total, AGES[a], table[:, a].sum(), *rest(table[:, a].sum())] for a in range(3)
                ]
            return found
        if parts["layout"] == "mixed":
            found = [[*labels, *year, sexes[s], *cells(table[s]), *rest(table[s].sum())] for s in range(2)]
            every = table.sum(axis=0)
            return found + (
                [[*labels, *year, total, *cells(every), *rest(every.sum())]] if parts["label_totals"] else []
            )
        return [[*labels, *year, *cells(table), *rest(table.sum())]]

    columns = {"persons": [sex, age], "long": [sex, age, count], "mixed": [sex, *names()]}.get(parts["layout"], None)
    header = [
        *places,
        *more[0],
        *(names() if columns is None else columns),
        *([] if parts["layout"] == "persons" else more[1]),
    ]
    body = []
    grand = None if parts["layout"] == "persons" else parts["grand_total"]
    everywhere = lines([total, *[""] * (len(places) - 1)], counts.sum(axis=(0, 1)), 9_000)
    body += everywhere if grand == "top" else []
    for r in range(len(counts)):
        sums = lines([place(r, 0)[0], total, *[""] * (len(places) - 2)], counts[r].sum(axis=0), 900)
        shown = parts["subtotals"] and parts["layout"] != "persons"
        for d in range(counts.shape[1]):
            found = lines(place(r, d), counts[r, d], int(rng.integers(20, 400)))
            if parts["merged"] and parts["layout"] != "persons":
                found = [[*([""] if d or i else row[:1]), *row[1:]] for i, row in enumerate(found)]
            body += found
        body += sums if shown else []
    body += everywhere if grand == "bottom" else []
    return [header, *body]


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
