"""strategy and protect --optimise-spine on the command line, and what is exact in plans, folders and certificates."""

import csv
import json
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

from command_line import figures, run
from tallyveil import Strategy, protect
from tallyveil.files import read_areas, read_counts, read_release
from tallyveil.privacy.strategy_toml import strategy_to_toml

GEOGRAPHY = ("region", "district", "ward", "street", "house_block")
CODEBOOK = """
[geography]
levels = ["region", "district", "ward", "street", "house_block"]
root = "land"
[attributes]
age = ["child", "adult", "old"]
home = ["household", "quarters"]
[groupings.grown]
of = "age"
groups = {minor = ["child"], grown = ["adult", "old"]}
[table]
layout = "long"
count = "n"
"""


@pytest.fixture(scope="module")
def land(tmp_path_factory) -> Path:
    """A folder with counts of two regions, their codebook, units, places, tribal areas and facilities."""
    place = tmp_path_factory.mktemp("land")
    units, counts, places, tribal, homes = [], [], [], [], []
    for number in range(32):
        codes = [f"{number:05b}"[: depth + 1] for depth in range(5)]
        codes = [f"R{code}" for code in codes]
        units.append(codes)
        for at, (age, home) in enumerate(
            (age, home) for age in ("child", "adult", "old") for home in ("household", "quarters")
        ):
            count = (7 * number + 3 * at) % 11 if home == "household" else 0
            if number % 5 == 2 and (age, home) == ("adult", "quarters"):
                count = 4
            if count:
                counts.append([*codes, age, home, count])
        homes += [[codes[-1], "household", 9], *([[codes[-1], "quarters", 1]] if number % 5 == 2 else [])]
        if number % 3:
            places.append([codes[-1], "Troy"])
        if number in (24, 25):
            tribal.append([codes[-1], "Pueblo"])
    leaf = GEOGRAPHY[-1]
    write(place / "counts.csv", [*GEOGRAPHY, "age", "home", "n"], counts)
    write(place / "units.csv", GEOGRAPHY, units)
    write(place / "places.csv", [leaf, "area"], places)
    write(place / "tribal.csv", [leaf, "area"], tribal)
    write(place / "homes.csv", [leaf, "type", "count"], homes)
    (place / "book.toml").write_text(CODEBOOK)
    return place


def write(path: Path, header, rows) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def on(land: Path, command: str, table: str, *words: str):
    return run(command, str(land / table), "--codebook", str(land / "book.toml"), *words)


def protected(land: Path, folder: Path, *words: str):
    given = ["--units", str(land / "units.csv"), "--threads", "1", "--seed", "3", "-o", str(folder)]
    return on(land, "protect", "counts.csv", *given, *words)


def truth(land: Path):
    return read_counts(land / "counts.csv", land / "book.toml", units=land / "units.csv")


def checks(folder: Path) -> dict[str, bool | None]:
    return {one["name"]: one["holds"] for one in figures("verify", str(folder))["checks"]}


# --- strategy


@pytest.mark.parametrize("invariants", [[], ["total@district"], ["detailed@region", "age@ward"]])
def test_the_written_strategy_gives_the_same_release_as_the_default(land, tmp_path, invariants):
    kept = [word for pair in invariants for word in ("--invariant", pair)]
    mine = tmp_path / "mine.toml"
    assert on(land, "strategy", "units.csv", "--epsilon", "1", *kept, "-o", str(mine)).returncode == 0
    done = protected(land, tmp_path / "one", "--strategy", str(mine))
    assert "exact anyway" not in done.stderr
    assert protected(land, tmp_path / "two", "--epsilon", "1", *kept).returncode == 0
    for name in ("release.parquet", "strategy.toml", "levels/ward.parquet"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_strategy_follows_from_names_and_units_and_no_count_is_read(land, tmp_path):
    other = pd.read_csv(land / "counts.csv", dtype=str).assign(n="a secret", age="not a label")
    missing = set(pd.read_csv(land / "units.csv").house_block) - set(other.house_block)
    assert not missing  # otherwise the units of the data would be fewer
    other.to_csv(land / "other.csv", index=False)
    texts = []
    for table in ("units.csv", "counts.csv", "other.csv"):
        file = tmp_path / f"{table}.toml"
        done = on(land, "strategy", table, "--rho", "1/2", "--invariant", "age@region", "-o", str(file))
        assert done.returncode == 0, done.stderr
        assert "no count was read" in done.stdout
        texts.append(file.read_text())
    assert texts[0] == texts[1] == texts[2]


def test_the_next_command_names_the_data_or_the_list_of_units_that_was_given(land, tmp_path):
    for table, words in (
        ("units.csv", "DATA --codebook {book} --units {table}"),
        ("counts.csv", "{table} --codebook {book}"),
    ):
        file = tmp_path / f"{table}.toml"
        done = on(land, "strategy", table, "--epsilon", "1", "-o", str(file))
        given = words.format(book=land / "book.toml", table=land / table)
        assert done.stdout.splitlines()[-1] == f"  tallyveil protect {given} --strategy {file} --plan"


def test_every_line_of_a_strategy_has_a_comment_and_every_query_its_noise(land, tmp_path):
    file = tmp_path / "mine.toml"
    words = ["--epsilon", "1", "--invariant", "detailed@region", "-o", str(file)]
    found = json.loads(on(land, "strategy", "units.csv", *words, "--json").stdout)
    lines = file.read_text().splitlines()
    fields = [
        line for line in lines if " = " in line and not line.startswith(("attributes", "invariant", "level ", "grown"))
    ]
    assert all("  # " in line for line in fields)
    (region,) = [line for line in lines if line.startswith('region = "0" ')]
    assert region.endswith("  # every count is exact, so nothing is measured")
    noise = {(one["level"], one["query"]): one for one in found["noise"]}
    assert noise["region", "age"] == {"level": "region", "query": "age", "sd": None, "usable": None, "exact": True}
    one = noise["ward", "age"]
    share = Fraction(1, 4) * Fraction(1, 4)  # four levels, four queries
    assert one["sd"] == pytest.approx(Strategy.read(file).noise("ward", "age").actual_variance() ** 0.5)
    assert Strategy.read(file).share("ward", "age") == share
    assert any(line.startswith("age = ") and f"{one['sd']:#.3g} persons on each count" in line for line in lines)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "a strategy needs one budget: --epsilon E (geometric noise) or --rho R"),
        (["--epsilon", "1", "--rho", "1"], "a strategy needs one budget"),
        (["--epsilon", "1", "--map", "us=land"], "--map gives the names of a preset. Add --preset NAME"),
        (
            ["--epsilon", "1", "--invariant", "sex@ward"],
            "--invariant sex@ward: query 'sex': unknown factor 'sex'. Known are age, home, grown, total, detailed.",
        ),
        (
            ["--epsilon", "1", "--invariant", "total@town"],
            "--invariant total@town: unknown level 'town'. The levels are",
        ),
        (["--epsilon", "1", "--invariant", "detailed@house_block"], "there is nothing to measure. Drop an invariant."),
        (
            ["--preset", "pl94-2020-us-persons"],
            "does not say which share to give to land, region, district, ward, street, house_block. Map each",
        ),
        (
            ["--preset", "e2e-2018", "--epsilon", "1"],
            "it has 4 levels (us, state, county, enumdist). Use a codebook with fewer levels",
        ),
        (["--preset", "e2e-2018", "--epsilon", "1", "--map", "town=ward"], "'town' is no name of the preset"),
        (["--preset", "e2e-2018", "--epsilon", "1", "--map", "us=town"], "'town', for us, is no level of the codebook"),
        (
            ["--preset", "e2e-2018", "--epsilon", "1", "--map", "us=ward, state=ward"],
            "us and state both stand for 'ward'",
        ),
        (["--preset", "e2e-2018", "--epsilon", "1", "--map", "us"], "'us' is neither a file nor PRESET_NAME=YOUR_NAME"),
    ],
)
def test_a_strategy_that_cannot_be_made_is_refused_and_nothing_is_written(land, tmp_path, words, line):
    done = on(land, "strategy", "units.csv", *words, "-o", str(tmp_path / "mine.toml"))
    assert done.returncode == 2
    assert line in done.stderr
    assert not (tmp_path / "mine.toml").exists()


LEVELS = "us=land, state=region, county=district, tract=ward, block_group=street, block=house_block"


def test_a_mapped_preset_keeps_the_proportions_of_all_that_is_left(land, tmp_path):
    file = tmp_path / "mine.toml"
    names = f"{LEVELS}, votingage=grown, hhgq=home"
    done = on(land, "strategy", "units.csv", "--preset", "pl94-2020-us-persons", "--map", names, "-o", str(file))
    assert done.returncode == 0, done.stderr
    mine, theirs = Strategy.read(file), Strategy.preset("pl94-2020-us-persons")
    assert (mine.budget, mine.delta, mine.only_child) == (theirs.budget, theirs.delta, theirs.only_child)
    assert dict(mine.passes) == dict.fromkeys(("district", "ward", "street"), (("total",), ("*",)))
    grown = ("votingage", "votingage * cenrace", "votingage * hispanic", "votingage * hispanic * cenrace")
    asked = {"total": ("total",), "grown": grown, "home": ("hhgq",), "detailed": ("detailed",)}
    factors = set()
    for own, level in zip(mine.levels, theirs.levels, strict=True):
        for query, names_of in asked.items():
            published = sum(theirs.share(level, name) for name in names_of if name in theirs.queries[level])
            if level in ("us", "state") and query == "total":  # exact: the root's, and an invariant of the preset
                assert query not in mine.queries[own]
            else:
                factors.add(mine.share(own, query) / published)
    assert len(factors) == 1
    assert factors.pop() > 1
    for note in ("left out of its queries: hispanic, cenrace, hhinstlevels", "total@region", "nobody has hhgq nursing"):
        assert note in done.stdout
        assert note in file.read_text()
    assert {constraint.words().partition(" ")[0] for constraint in mine.constraints} == {"total", "persons"}


def test_names_can_be_in_a_file_and_a_preset_on_its_own_names_is_itself(tmp_path):
    levels = ("state", "county", "enumdist")
    write(tmp_path / "units.csv", levels, [["01", "01a", "01a1"], ["01", "01a", "01a2"], ["02", "02a", "02a1"]])
    labels = {"hhgq": ["household", "other"], "votingage": ["n", "y"], "hispanic": ["n", "y"], "folk": ["a", "b"]}
    attributes = "\n".join(f"{name} = {json.dumps(values)}" for name, values in labels.items())
    geography = f"[geography]\nroot = 'us'\nlevels = {json.dumps(levels)}"
    (tmp_path / "book.toml").write_text(f"{geography}\n[attributes]\n{attributes}\n[table]\nlayout = 'persons'\n")
    (tmp_path / "names.toml").write_text('[attributes]\nrace = "folk"\n')
    words = ["--preset", "e2e-2018", "--epsilon", "1/2", "--map", str(tmp_path / "names.toml")]
    done = on(tmp_path, "strategy", "units.csv", *words, "-o", str(tmp_path / "mine.toml"))
    assert done.returncode == 0, done.stderr
    theirs = strategy_to_toml(Strategy.preset("e2e-2018", epsilon="1/2")).replace("race", "folk")
    mine = strategy_to_toml(Strategy.read(tmp_path / "mine.toml"))
    assert mine == theirs.replace('name = "e2e-2018"', 'name = "e2e-2018, mapped"')


# --- what is exact


def test_a_plan_shows_what_is_exact_without_noise_or_a_smallest_usable_count(land):
    words = ["--units", str(land / "units.csv"), "--epsilon", "1", "--invariant", "total@district", "--plan"]
    done = on(land, "protect", "counts.csv", *words)
    totals = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("total ")]
    assert [row[:3] for row in totals] == [["exact"] * 3] * 3  # of the noise, of usable counts and of expected errors
    assert all("exact" not in row[3:] for row in totals)
    plan = json.loads(on(land, "protect", "counts.csv", *words, "--json").stdout)
    county = {one["query"]: one for one in plan["noise"] if one["level"] == "district"}
    assert (county["total"]["exact"], county["total"]["sd"], county["total"]["usable"]) == (True, None, None)
    assert county["age"]["usable"] == pytest.approx(10 * county["age"]["sd"], abs=1)


def test_a_share_for_what_is_exact_is_kept_as_written_with_one_line_on_what_to_do(land, tmp_path):
    mine = tmp_path / "mine.toml"
    plain = Strategy.default(truth(land).spine, truth(land).schema, epsilon=1)
    mine.write_text(strategy_to_toml(plain))
    done = protected(land, tmp_path / "out", "--strategy", str(mine), "--invariant", "total@region")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "exact anyway" in line]
    assert "spends 4.2% of the budget on counts that are exact anyway (total@region)" in line  # 1/6 * 1/4
    assert "Move these shares to other queries" in line
    assert read_release(tmp_path / "out").strategy.share("region", "total") == Fraction(1, 24)


def test_levels_that_are_not_measured_are_exact_in_the_release_its_tables_and_its_certificate(land, tmp_path):
    words = ["--epsilon", "1", "--invariant", "detailed@district", "--measurements", "all"]
    assert protected(land, tmp_path / "out", *words).returncode == 0
    released, people = read_release(tmp_path / "out").histogram, truth(land)
    assert released != people
    for level in ("land", "region", "district"):
        assert (
            released.answer("detailed", level=level).dense().tolist()
            == people.answer("detailed", level=level).dense().tolist()
        )
    table = pd.read_parquet(tmp_path / "out" / "levels" / "district.parquet")
    assert {"total", "age:old", "home:quarters"} <= set(table.columns)
    assert all(held for name, held in checks(tmp_path / "out").items() if name not in ("signature", "microdata"))
    declared = json.loads((tmp_path / "out" / "certificate.json").read_text())["declared"]["budget"]
    assert [one["share"] for one in declared["levels"]] == ["0", "0", "0", "1/3", "1/3", "1/3"]
    assert {"level": "district", "query": "age"} in declared["exact"]
    page = (tmp_path / "out" / "certificate.html").read_text()
    assert '<td>age</td><td class="n"><span class="soft">exact</span></td>' in page


# --- the optimised spine


@pytest.mark.parametrize("invariants", [[], ["total@region"], ["age@house_block"], ["detailed@region"]])
def test_a_release_on_the_optimised_spine_is_pythons_and_holds_in_every_check(land, tmp_path, invariants):
    kept = [word for pair in invariants for word in ("--invariant", pair)]
    areas = ["--places", str(land / "places.csv"), "--tribal", str(land / "tribal.csv")]
    words = ["--rho", "2", *kept, "--optimise-spine", *areas]
    done = protected(land, tmp_path / "out", *words, "--measurements", "all")
    assert done.returncode == 0, done.stderr
    assert "Measured on an optimised spine, shaped by places and tribal areas (land 1, region 3," in done.stderr
    people = truth(land)
    optimised = people.spine.optimised(
        place=read_areas(land / "places.csv", people.spine), tribal=read_areas(land / "tribal.csv", people.spine)
    )
    release = read_release(tmp_path / "out")
    assert protect(people, release.strategy, seed=3, optimised=optimised).histogram == release.histogram
    assert all(held for name, held in checks(tmp_path / "out").items() if name not in ("signature", "microdata"))
    declared = json.loads((tmp_path / "out" / "certificate.json").read_text())["declared"]
    assert declared["measured_on"]["shaped_by"] == ["places", "tribal areas"]
    plan = json.loads(
        on(land, "protect", "counts.csv", "--units", str(land / "units.csv"), *words, "--plan", "--json").stdout
    )
    assert plan["measured_on"] == declared["measured_on"]
    assert plan["guarantee"]["epsilon"] == declared["guarantee"]["epsilon"]


def test_facilities_that_bound_a_release_shape_its_optimised_spine_too(land, tmp_path):
    mine = tmp_path / "mine.toml"
    names = f"{LEVELS}, votingage=grown, hhgq=home"
    made = on(land, "strategy", "units.csv", "--preset", "pl94-2020-us-persons", "--map", names, "-o", str(mine))
    assert made.returncode == 0, made.stderr
    words = [
        "--strategy",
        str(mine),
        "--facilities",
        str(land / "homes.csv"),
        "--optimise-spine",
        "--measurements",
        "all",
    ]
    done = protected(land, tmp_path / "out", *words)
    assert done.returncode == 0, done.stderr
    assert all(held for name, held in checks(tmp_path / "out").items() if name not in ("signature", "microdata"))
    declared = json.loads((tmp_path / "out" / "certificate.json").read_text())["declared"]
    assert declared["measured_on"]["shaped_by"] == ["facilities"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--places", "places.csv"], "shapes the optimised spine only. Add --optimise-spine"),
        (["--optimise-spine", "--places", "units.csv"], "needs the columns house_block, area"),
        (["--optimise-spine", "--invariant", "total@street"], "the optimised spine rebuilds the level 'street'"),
        (
            ["--optimise-spine", "--tribal", "tribal.csv", "--invariant", "total@ward"],
            "the optimised spine splits ward 'R110' between units",
        ),
    ],
)
def test_a_plan_on_an_optimised_spine_refuses_what_the_run_would_refuse(land, words, line):
    given = [str(land / word) if word.endswith(".csv") else word for word in words]
    done = on(land, "protect", "counts.csv", "--units", str(land / "units.csv"), "--epsilon", "1", *given, "--plan")
    assert done.returncode == 2
    assert line in done.stderr
