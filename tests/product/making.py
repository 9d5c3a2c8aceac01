"""The tiny inputs of a combination, and every public page that the program makes from them."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from command_line import Done, run

AGES, HOMES = ("child", "adult"), ("house", "dorm", "prison")
# levels below the root us, coarse to fine, and a row for each leaf
SPINES: dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]] = {
    "standard": (("county", "block"), [("1", "11"), ("1", "12"), ("1", "13"), ("2", "21"), ("2", "22")]),
    "optimised": (
        ("county", "group", "block"),
        [
            ("1", "1a", "11"),
            ("1", "1a", "12"),
            ("1", "1b", "13"),
            ("1", "1b", "14"),
            ("2", "2a", "21"),
            ("2", "2a", "22"),
            ("2", "2b", "23"),
        ],
    ),
    "only-child": (
        ("county", "group", "block"),
        [
            ("1", "1a", "11"),
            ("1", "1a", "12"),
            ("1", "1b", "13"),
            ("2", "2a", "21"),
            ("3", "3a", "31"),
            ("3", "3a", "32"),
        ],
    ),
    "alone": (
        ("county", "group", "block"),
        [("1", "1a", "11"), ("1", "1a", "12"), ("2", "2a", "21"), ("2", "2a", "22")],
    ),
}
PLACES, TRIBAL = {"11": "P", "13": "P", "22": "Q"}, {"21": "T"}
# people by leaf: children in houses and dorms, adults in houses, dorms and prisons; every other leaf is empty
PEOPLE = {
    "11": (2, 1, 4, 0, 1),
    "12": (1, 0, 3, 0, 0),
    "21": (3, 1, 6, 2, 0),
    "22": (0, 0, 2, 0, 1),
    "31": (1, 0, 2, 0, 0),
    "14": (0, 0, 1, 0, 0),
}
CELLS = (("child", "house"), ("child", "dorm"), ("adult", "house"), ("adult", "dorm"), ("adult", "prison"))
FACILITIES = (2, 1, 1)  # houses, dorms and prisons where people live in them
BUDGETS = {
    ("geometric", "small"): ("epsilon", "1/2"),
    ("geometric", "large"): ("epsilon", "3"),
    ("zcdp", "small"): ("rho", "1/200"),
    ("zcdp", "large"): ("rho", "3/5"),
    ("pld", "small"): ("epsilon", "2/5"),
    ("pld", "large"): ("epsilon", "5/2"),
}
LIMIT = 40  # of the ledger, in epsilon
# a level with other queries, so that it matters who takes over the share of an only child
COUNTY = ("[queries.county]", 'total = "1/10"', 'age = "1/2"', 'home = "1/10"', 'detailed = "3/10"')
SECOND = {"epsilon": "1/5", "rho": "1/50"}  # what a second release about the same people costs


@dataclass
class Pages:
    """Everything public about a combination, as text or parsed; `refused` is the line of an error instead."""

    case: dict[str, str]
    folders: list[Path] = field(default_factory=list)
    page: dict[str, str] = field(default_factory=dict)
    json: dict[str, dict] = field(default_factory=dict)
    refused: Done | None = None
    truth: dict[tuple[str, str, str], int] = field(default_factory=dict)


def pages_of(case: dict[str, str], folder: Path, *, report: bool = True) -> Pages:
    """Make the releases of a combination and every page about them; in a wide terminal, so that no cell is folded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "4000")
        return _pages_of(case, folder, report=report)


def _pages_of(case: dict[str, str], folder: Path, *, report: bool) -> Pages:
    made = Pages(case, truth=_truth(case))
    inputs = _inputs(case, folder)
    ledger = folder / "ledger.jsonl"
    _run("ledger", str(ledger), "limit", "--epsilon", str(LIMIT), "--delta", case["delta"])
    strategies = [
        _strategy(case, folder / f"{n}.toml", second=n == 2) for n in range(1, 3 if case["releases"] == "two" else 2)
    ]
    for number, strategy in enumerate(strategies, 1):
        words = [*inputs, "--strategy", str(strategy), "--population", "residents", "--threads", "1"]
        if number == 1:
            plan = run("protect", *words, "--plan")
            if plan.returncode:
                made.refused = plan
                return made
            made.page["plan"], made.json["plan"] = plan.stdout, json.loads(_run("protect", *words, "--plan", "--json"))
        target = folder / f"release{number}"
        made.page[f"protect {number}"] = _protect(
            [*words, *_key(case, folder, number), "--ledger", str(ledger)], target, case, folder
        )
        made.folders.append(target)
        _about_release(made, target, number, folder, report=report and number == 1)
    _about_all(made, ledger)
    return made


def _about_release(made: Pages, target: Path, number: int, folder: Path, *, report: bool) -> None:
    made.page[f"certificate {number}"] = (target / "certificate.html").read_text()
    made.json[f"certificate {number}"] = json.loads((target / "certificate.json").read_text())
    made.page[f"verify {number}"] = _run("verify", str(target))
    made.page[f"strategy {number}"] = _run("account", "--strategy", str(target / "strategy.toml"))
    made.json[f"strategy {number}"] = json.loads(_run("account", "--strategy", str(target / "strategy.toml"), "--json"))
    _run("tables", str(target), "-o", str(folder / f"tables{number}"))
    made.page[f"tables {number}"] = (folder / f"tables{number}" / "README.txt").read_text()
    if report:
        _run("report", str(target), "-o", str(folder / "report.html"))
        made.page["report"] = (folder / "report.html").read_text()


def _about_all(made: Pages, ledger: Path) -> None:
    names = [str(target) for target in made.folders]
    made.page["account"], made.json["account"] = (
        _run("account", "--release", *names),
        json.loads(_run("account", "--release", *names, "--json")),
    )
    made.page["ledger"] = _run("ledger", str(ledger), "show")
    made.json["ledger"] = json.loads(_run("ledger", str(ledger), "show", "--json"))


def _run(*words: str) -> str:
    done = run(*words)
    assert done.returncode == 0, (words, done.stdout[-800:], done.stderr)
    return done.stdout


def _protect(words: list[str], target: Path, case: dict[str, str], folder: Path) -> str:
    if case["signed"] == "yes":
        if not (folder / "office").exists():
            _run("keygen", "-o", str(folder / "office"))
        words = [*words, "--sign", str(folder / "office")]
    done = run("protect", *words, "--measurements", "all", "--date", "2026-01-01", "-o", str(target))
    assert done.returncode == 0, done.stderr
    return done.stderr


def _key(case: dict[str, str], folder: Path, number: int) -> list[str]:
    return {"seed": ["--seed", str(number)], "file": ["--key-file", str(folder / "key")], "system": []}[case["key"]]


def _truth(case: dict[str, str]) -> dict[tuple[str, str, str], int]:
    leaves = SPINES[case["spine"]][1]
    return {
        (leaf[-1], *cell): count
        for leaf in leaves
        for cell, count in zip(CELLS, PEOPLE.get(leaf[-1], ()), strict=False)
        if count
    }


def _inputs(case: dict[str, str], folder: Path) -> list[str]:
    """Write the data, their codebook and public tables, and return them as they are named on the command line."""
    levels, leaves = SPINES[case["spine"]]
    zeros = '[[zeros]]\nage = ["child"]\nhome = ["prison"]\n' if case["zeros"] in ("codebook", "both") else ""
    where = 'where = {kind = "in"}\n' if case["filter"] != "none" else ""
    public = "where_is_public = true\n" if case["filter"] == "public" else ""
    layout = {"long": 'count = "count"\n', "wide": 'column = "{age}_{home}"\n', "persons": ""}[case["layout"]]
    person = "" if case["person"] == "none" else 'person = "id"\n'
    person += f"at_most = {case['person']}\n" if case["person"] == "3" else ""
    (folder / "book.toml").write_text(
        f"[geography]\nroot = 'us'\nlevels = {list(levels)}\n"
        f"[attributes]\nage = {list(AGES)}\nhome = {list(HOMES)}\n{zeros}"
        f'[table]\nlayout = "{case["layout"]}"\n{layout}{where}{public}{person}'
    )
    _write(folder / "people.csv", *_table(case))
    _write(folder / "units.csv", levels, leaves)
    kinds = [
        (leaf[-1], home, str(count))
        for leaf in leaves
        if leaf[-1] in PEOPLE
        for home, count in zip(HOMES, FACILITIES, strict=True)
    ]
    _write(folder / "facilities.csv", ("block", "type", "count"), kinds)
    for name, areas in (("places", PLACES), ("tribal", TRIBAL)):
        _write(
            folder / f"{name}.csv",
            ("block", "area"),
            [(leaf, area) for leaf, area in areas.items() if leaf in _leaves(case)],
        )
    words = [str(folder / "people.csv"), "--codebook", str(folder / "book.toml")]
    if case["units"] == "listed":
        words += ["--units", str(folder / "units.csv")]
    if case["bounds"].startswith("facilities"):
        words += ["--facilities", str(folder / "facilities.csv")]
    if case["spine"] == "optimised":
        words += ["--optimise-spine", "--places", str(folder / "places.csv"), "--tribal", str(folder / "tribal.csv")]
    return words


def _leaves(case: dict[str, str]) -> set[str]:
    """The leaves that a release has: from a table of persons alone, those with people."""
    people = case["layout"] == "persons" and case["units"] == "from data"
    return {leaf[-1] for leaf in SPINES[case["spine"]][1] if leaf[-1] in PEOPLE or not people}


def _table(case: dict[str, str]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    levels, leaves = SPINES[case["spine"]]
    truth = _truth(case)
    extra, inside, outside = ((), (), ()) if case["filter"] == "none" else (("kind",), ("in",), ("out",))
    rows: list[tuple[str, ...]] = []
    cells = [(age, home) for age in AGES for home in HOMES]
    for leaf in leaves:
        counts = {cell: truth.get((leaf[-1], *cell), 0) for cell in cells}
        if case["layout"] == "wide":
            rows.append((*leaf, *map(str, counts.values()), *inside))
        elif case["layout"] == "long":
            rows += [
                (*leaf, *cell, str(count), *inside)
                for cell, count in counts.items()
                if count or cell == ("adult", "house")
            ]
        else:
            rows += [(*leaf, *cell, *inside) for cell, count in counts.items() for _ in range(count)]
    if outside:
        rows += [(*row[:-1], *outside) for row in rows[:2]]
    header = {
        "wide": [f"{age}_{home}" for age, home in cells],
        "long": ["age", "home", "count"],
        "persons": ["age", "home"],
    }
    if case["person"] != "none":
        rows = [(*row, f"p{number // int(case['person'])}") for number, row in enumerate(rows)]
        extra = (*extra, "id")
    return (*levels, *header[case["layout"]], *extra), rows


def _write(path: Path, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def _strategy(case: dict[str, str], path: Path, *, second: bool) -> Path:
    levels = ("us", *SPINES[case["spine"]][0])
    shares = ["1/3", "1/6", "1/2"] if len(levels) == 3 else ["1/4", "1/6", "1/4", "1/3"]
    unit, amount = BUDGETS[case["noise"], case["budget"]]
    amount = SECOND[unit] if second else amount
    lines = [
        f'mechanism = "{"geometric" if case["noise"] == "geometric" else "gaussian"}"',
        f'{unit} = "{amount}"',
        f'delta = "{case["delta"]}"',
        f'neighbours = "{case["neighbours"]}"',
        f"only_child = {str(case['spine'] == 'only-child').lower()}",
        f'estimator = "{case["estimator"]}"',
        f"check_constraints = {str('unchecked' not in case['bounds']).lower()}",
    ]
    if case["noise"] == "pld":
        lines.append('accounting = "pld"')
    lines += ["[levels]", *(f'{level} = "{share}"' for level, share in zip(levels, shares, strict=True))]
    lines += ["[queries]", 'total = "1/5"', 'age = "1/5"', 'home = "1/4"', 'detailed = "7/20"']
    path.write_text(
        "\n".join([*lines, "[queries.us]", 'age = "2/3"', 'detailed = "1/3"', *COUNTY, *_constraints(case), ""])
    )
    return path


def _constraints(case: dict[str, str]) -> list[str]:
    found = []
    if case["invariant"] != "none":
        query, level = case["invariant"].split("@")
        found.append(f'invariant = "{query}"\nlevel = "{level}"')
    if case["zeros"] in ("strategy", "both"):
        found.append('zero = {age = ["child"], home = ["prison"]}')
    if case["bounds"].startswith("query"):
        child, adult = (sum(_of_county(case, "2", age)) for age in AGES)  # together the three bounds fix all of them
        found.append(f'bound = "total"\nlevel = "county"\nmost = {{total = {child + adult}}}\nunits = ["2"]')
        found.append(f'bound = "age"\nlevel = "county"\nleast = {{child = {child}, adult = {adult}}}\nunits = ["2"]')
        found.append('bound = "home"\nlevel = "block"\nmost = {house = 40}')
    if case["bounds"].startswith("facilities"):
        found.append('facilities = "home"\nlevel = "block"\nleast = {house = 0, "*" = 0}\nmost = {"*" = 9}')
    return [f"[[constraints]]\n{words}" for words in found]


def _of_county(case: dict[str, str], county: str, age: str) -> list[int]:
    leaves = {leaf[-1] for leaf in SPINES[case["spine"]][1] if leaf[0] == county}
    return [count for (leaf, of, _), count in _truth(case).items() if leaf in leaves and of == age]
