"""``to_arrow`` and ``to_pandas`` of counts, releases, measurements and estimates."""

import subprocess
import sys

import numpy as np
import pytest
from small_tables import random_people, same

from tallyveil import Estimates, Strategy, measure, protect
from tallyveil.errors import InputError
from tallyveil.files import read_counts
from tallyveil.files.release_folder.measurement_files import measured_pairs
from tallyveil.files.tables.write import codebook_for
from tallyveil.privacy import RunKey


@pytest.fixture(scope="module")
def noisy():
    people = random_people(3, units=20)
    plan = Strategy.default(people.spine, people.schema, rho=1)
    return measure(people, plan, RunKey.from_seed(1))


def test_counts_as_a_table_read_back_the_same(people):
    for table in (people.to_arrow(), people.to_pandas()):
        assert same(read_counts(table, codebook_for(people, "long"), units=people.spine), people)
    assert list(people.to_pandas()) == ["state", "county", "tract", "age", "home", "count"]
    assert people.to_pandas()["count"].sum() == people.total()


def test_a_release_gives_the_table_of_its_counts(people):
    release = protect(people, Strategy.default(people.spine, people.schema, epsilon=1), seed=1, threads=1)
    assert release.to_arrow().equals(release.histogram.to_arrow())
    assert release.to_pandas().equals(release.histogram.to_pandas())


def test_measurements_as_a_table_have_every_answer_with_its_variance(noisy):
    table = noisy.to_pandas()
    assert list(table) == ["level", "query", "unit", "cell", "value", "variance"]
    for query, level in measured_pairs(noisy.strategy):
        asked, units = noisy.schema.query(query), noisy.spine.labels(level)
        rows = table[(table["level"] == level) & (table["query"] == query)]
        answers = noisy.ask(level, query, np.arange(len(units) * asked.size))
        assert rows["value"].tolist() == answers.tolist()
        assert rows["unit"].tolist() == np.repeat(units, asked.size).tolist()
        assert rows["cell"].tolist() == asked.labels() * len(units)
        assert set(rows["variance"]) == {noisy.variances(level, query)[1]}


def test_saved_measurements_as_a_table_have_what_was_saved(noisy):
    table, saved = noisy.to_pandas(), noisy.saved([("age", "county")]).to_pandas()
    whole = table[(table["level"] == "county") & (table["query"] == "age")]
    assert saved["value"].tolist() == whole["value"].tolist()
    assert set(saved["query"]) == {"age"}
    with pytest.raises(InputError, match="no answers were saved, so there is no table of them"):
        noisy.saved([]).to_arrow()


def test_estimates_as_a_table_have_a_row_for_each_replicate_unit_and_cell(people):
    counts = {level: people.answer("age", level=level).dense() for level in ("county", "tract")}
    tables = {level: np.stack([table, table + 0.5]) for level, table in counts.items()}
    table = Estimates(spine=people.spine, schema=people.schema, query="age", tables=tables).to_pandas()
    assert list(table) == ["level", "query", "replicate", "unit", "cell", "estimate"]
    assert len(table) == 2 * (3 + 5) * 2
    sums = table.groupby(["level", "replicate"], observed=True)["estimate"].sum()
    assert sums["county", 0] == sums["tract", 0] == people.total()
    assert sums["tract", 1] == people.total() + 5
    adults = table[(table["unit"] == "44001") & (table["cell"] == "adult")]
    assert adults["estimate"].tolist() == [2, 2.5]


def test_the_types_that_give_tables_do_not_import_pandas_or_pyarrow():
    code = (
        "import sys, tallyveil as tv\n"
        "tv.Histogram, tv.Release, tv.Measurements, tv.Estimates\n"
        "print([name for name in ('pandas', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
