"""Every form of a codebook, from a table to a release and back: protect, evaluate, compare, scan, margins, tables."""

import pandas as pd
import pytest

from command_line import figures, run
from folders import holds

COUNTIES = [("1", "Kent"), ("11", "Sussex"), ("2", "Öster*götland")]
TRACTS = {"1": ["12", "2"], "11": ["2", "3", "12"], "2": ["7/8", "9"]}  # codes repeat; 1 12 and 11 2 would collide
UNITS = [(county, name, tract) for county, name in COUNTIES for tract in TRACTS[county]]
GEOIDS = [f"{int(county):02}{i:03}" for i, (county, _, _) in enumerate(UNITS)]
CELLS = {"child_f": [3, 0, 9, 1, 7, 8, 2], "child_m": [2, 5, 7, 0, 4, 6, 1], "adult_f": [9, 8, 30, 2, 6, 7, 8],
         "adult_m": [8, 7, 25, 1, 9, 5, 0]}  # fmt: skip


def wide(**columns) -> pd.DataFrame:
    return pd.DataFrame({**columns, **CELLS})


def long(**columns) -> pd.DataFrame:
    table = wide(**columns).melt(list(columns), var_name="cell", value_name="people")
    table[["age", "sex"]] = table.pop("cell").str.split("_", expand=True).to_numpy()
    return table


def persons(**columns) -> pd.DataFrame:
    table = long(**columns)
    return table.loc[table.index.repeat(table.pop("people"))]


def own_codes() -> dict[str, list[str]]:
    return {"county": [county for county, _, _ in UNITS], "tract": [tract for _, _, tract in UNITS]}


def full_codes() -> dict[str, list[str]]:
    return {"county": [code[:2] for code in GEOIDS], "tract": GEOIDS}


def numbers() -> dict[str, list[int]]:
    return {"county": [int(code[:2]) for code in GEOIDS], "tract": [int(code) for code in GEOIDS]}


RELATIVE = '[geography]\nroot = "state"\nlevels = ["county", "tract"]\nrelative = true\n'
FULL = '[geography]\nroot = "state"\nlevels = ["county", "tract"]\n'
NO_ROOT = '[geography]\nlevels = ["state", "county", "tract"]\nrelative = true\n'
CUT = '[geography]\nroot = "state"\ncode = "GEOID20"\nlengths = {county = 2, tract = 5}\n'
LABELS = '[attributes]\nage = ["child", "adult"]\nsex = ["f", "m"]\n'
MET_LABELS = '[attributes]\nage = []\nsex = ["f", "m"]\n'
WIDE = LABELS + '[table]\nlayout = "wide"\ncolumn = "{age}_{sex}"\n'
FILTER = 'where = {level = "tract"}\nwhere_is_public = true\n'
TOTALS = pd.DataFrame({**own_codes(), "pop": CELLS["adult_f"]})
CLASSES = pd.DataFrame({**own_codes(), "A*": CELLS["child_f"], "B": CELLS["adult_m"]})
FORMS = {
    "one column per level": (wide(**full_codes()), FULL + WIDE),
    "a code that is cut": (wide(GEOID20=GEOIDS), CUT + WIDE),
    "repeated codes and names": (
        wide(**own_codes(), county_name=[name for _, name, _ in UNITS]),
        RELATIVE + 'names = {county = "county_name"}\n' + WIDE,
    ),
    "repeated codes, persons": (persons(**own_codes()), RELATIVE + LABELS + '[table]\nlayout = "persons"\n'),
    "labels from the data, no root": (
        long(state=["DE"] * 7, **own_codes()),
        NO_ROOT + MET_LABELS + '[table]\nlayout = "long"\ncount = "people"\n',
    ),
    "lost zeros and a filter": (
        wide(**numbers(), level=["tract"] * 6 + ["other"]),
        FULL + "pad = {county = 2, tract = 5}\n" + WIDE + FILTER,
    ),
    "some attributes in columns, words and empty cells": (
        long(**full_codes())
        .replace({"sex": {"m": ""}})
        .pivot_table("people", ["county", "tract", "sex"], "age")
        .reset_index(),
        FULL + LABELS.replace('"m"', '""') + '[labels.sex]\nf = "female"\n"" = "not stated"\n'
        '[table]\nlayout = "wide"\ncolumn = "{age}"\n',
    ),
    "persons in bands of age": (
        persons(**full_codes()).assign(age=lambda t: [5 if a == "child" else 40 for a in t["age"]]),
        FULL + '[attributes]\nage = []\nsex = ["f", "m"]\n[bands]\nage = [0, 18]\n[table]\nlayout = "persons"\n',
    ),
    "an untidy file": (
        "Table 1: people\ncounty;tract;child;;adult;\n;;f;m;f;m\n"
        + "".join(
            f"{row}\n"
            for row in [
                *(f"01;{geoid};1.0{i:02};{i};-;7" for i, geoid in enumerate(GEOIDS[:1])),
                *(f";{geoid};1.0{i:02};{i};-;7" for i, geoid in enumerate(GEOIDS[1:2])),
                "All;;2.000;0;-;14",
            ]
        )
        + "Source: made up\n",
        FULL + LABELS + '[table]\nlayout = "wide"\ncolumn = "{age}: {sex}"\n[file]\ntitle_rows = 1\nheader_rows = 2\n'
        'note_rows = 1\nfill_down = ["county"]\ntotal_rows = {county = ["All"]}\nthousands = "."\nzeros = ["-"]\n',
    ),
    "one attribute with a star": (
        CLASSES,
        RELATIVE + '[attributes]\nclass = ["A*", "B"]\n[table]\nlayout = "wide"\ncolumn = "{class}"\n',
    ),
    "totals only, wide": (TOTALS, RELATIVE + '[table]\nlayout = "wide"\ntotal = "pop"\n'),
    "totals only, long": (TOTALS, RELATIVE + '[attributes]\n[table]\nlayout = "long"\ncount = "pop"\n'),
    "totals only, persons": (persons(**full_codes())[["county", "tract"]], FULL + '[table]\nlayout = "persons"\n'),
}


@pytest.fixture(params=FORMS, scope="module")
def form(request, tmp_path_factory):
    """A table, its codebook, and a release of it."""
    place = tmp_path_factory.mktemp("form")
    table, book = FORMS[request.param]
    if isinstance(table, str):
        (place / "t.csv").write_text(table, encoding="utf-8")
    else:
        table.to_csv(place / "t.csv", index=False)
    (place / "t.toml").write_text(book)
    words = ("--codebook", f"{place / 't.toml'}", "--epsilon", "1", "--seed", "1", "--measurements", "all")
    done = run("protect", f"{place / 't.csv'}", *words, "-o", f"{place / 'r'}")
    assert done.returncode == 0, done.stderr
    return place


def test_a_release_is_evaluated_and_compared_without_a_codebook_and_with_one(form):
    words = (f"{form / 't.csv'}", f"{form / 'r'}", "--level", "tract", "--query", "total")
    alone = figures("evaluate", *words)
    assert {row["level"] for row in alone["releases"][0]["error"]} == {"tract"}
    assert alone == figures("evaluate", *words, "--codebook", f"{form / 't.toml'}")
    assert figures("compare", *words)


def test_a_release_is_scanned_gets_margins_and_holds(form, request):
    table, release = f"{form / 't.csv'}", form / "r"
    assert figures("risk", "scan", table, "--release", f"{release}")["levels"]
    nothing_to_learn = "totals" in request.node.callspec.params["form"]
    told = run("risk", "scan", table, "--release", f"{release}").stdout
    assert ("has nothing left to learn" in told) == nothing_to_learn
    assert holds(release)
    assert figures("uncertainty", f"{release}", "--replicates", "1")["written"]
    assert holds(release)


def test_the_original_codes_join_with_every_table_by_level(form, request):
    name = request.node.callspec.params["form"]
    cut, untidy = "cut" in name, "untidy" in name
    table = pd.DataFrame({"county": "01", "tract": GEOIDS[:2]}) if untidy else pd.read_csv(form / "t.csv", dtype=str)
    if "zeros" in name:
        table = table[table.level == "tract"].assign(county=table.county.str.zfill(2), tract=table.tract.str.zfill(5))
    if cut:
        table["county"], table["tract"] = table.GEOID20.str[:2], table.GEOID20
    keys = [column for column in ("state", "county", "tract") if column in table]
    for level in ("county", "tract"):
        by = keys[: keys.index(level) + 1]
        released = pd.read_parquet(form / "r" / "levels" / f"{level}.parquet")
        joined = table[by].drop_duplicates().merge(released.astype(dict.fromkeys(by, str)), how="outer", on=by)
        assert len(joined) == len(released)
        assert joined.notna().all().all()
        if "names" in name:
            right = dict(zip(table.county, table.county_name, strict=True))
            assert (released.county_name.astype(str) == released.county.astype(str).map(right)).all()


def test_tables_by_level_have_every_attribute(form, request):
    name = request.node.callspec.params["form"]
    columns = pd.read_parquet(form / "r" / "levels" / "tract.parquet").columns
    counts = [column for column in columns if not column.endswith("_moe90")]
    if "totals" in name:
        assert [column for column in counts if ":" in column] == []
    elif "star" in name:
        assert [column for column in counts if ":" in column] == ["class:A*", "class:B"]
    elif "words" in name:
        assert {"age:child", "age:adult", "sex:female", "sex:not stated"} <= set(counts)
    elif "bands" in name:
        assert {"age:0-17", "age:18+", "sex:f", "sex:m"} <= set(counts)
    else:
        assert {"age:child", "age:adult", "sex:f", "sex:m"} <= set(counts)
    assert "total" in counts


def test_a_release_is_written_as_tables_that_sum_to_it_and_its_measurements_are_estimated(form):
    done = run("tables", f"{form / 'r'}", "--level", "tract", "-o", f"{form / 'tables'}")
    assert done.returncode == 0, done.stderr
    released = pd.read_parquet(form / "r" / "release.parquet")["count"].sum()
    tidy = pd.read_csv(form / "tables" / "tract_tidy.csv")
    sums = tidy.groupby("query")["count"].sum()
    assert (sums == released).all()
    rows = figures("estimate", f"{form / 'r'}", "--level", "tract", "--query", "total")["rows"]
    assert len(rows) == len(pd.read_parquet(form / "r" / "levels" / "tract.parquet"))
    assert sum(row["estimate"] for row in rows) == pytest.approx(released)  # the total of all people is exact
