"""Each entrance raises the kind of InputError that its input is of."""

import pytest

import tallyveil as tv
from small_release import small_people, small_release, small_strategy
from tallyveil.errors import BudgetError, DataError, FolderError, InputError, StrategyError, UnknownUnitError
from tallyveil.files import read_codebook, write_counts

KINDS = (DataError, StrategyError, FolderError)


def kind_of(action) -> type[InputError]:
    with pytest.raises(InputError) as caught:
        action()
    return caught.type


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_an_input_error_and_a_value_error(kind):
    assert issubclass(kind, InputError)
    assert issubclass(kind, ValueError)
    assert not any(issubclass(kind, other) for other in KINDS if other is not kind)


def test_bad_tables_codes_labels_and_codebooks_are_data_errors(tmp_path):
    people = small_people()
    write_counts(people, tmp_path / "people.csv", layout="long")
    book = tmp_path / "people.codebook.toml"
    table = (tmp_path / "people.csv").read_text()
    (tmp_path / "people.csv").write_text(table.replace("adult", "old"))
    assert kind_of(lambda: tv.read_counts(tmp_path / "people.csv", book)) is DataError
    (tmp_path / "people.csv").write_text(table.replace("011", "999"))
    units = tmp_path / "people.units.parquet"
    assert kind_of(lambda: tv.read_counts(tmp_path / "people.csv", book, units=units)) is UnknownUnitError
    assert kind_of(lambda: read_codebook(tmp_path / "none.toml")) is DataError
    assert kind_of(lambda: tv.Spine.from_columns({"county": []})) is DataError
    assert kind_of(lambda: tv.Schema(attributes={"age": []})) is DataError
    assert kind_of(lambda: tv.Counts.from_dense([[-1]])) is DataError


def test_bad_strategies_are_strategy_errors_and_bad_budgets_budget_errors(tmp_path):
    people = small_people()
    (tmp_path / "s.toml").write_text("mechanism = 1")
    assert kind_of(lambda: tv.Strategy.read(tmp_path / "s.toml")) is StrategyError
    assert kind_of(lambda: tv.Strategy.read(tmp_path / "none.toml")) is StrategyError
    assert kind_of(lambda: tv.protect(people, tv.Strategy.preset("e2e-2018", epsilon=1))) is StrategyError
    assert kind_of(lambda: tv.Strategy.default(people.spine, people.schema, rho=-1)) is BudgetError
    assert issubclass(BudgetError, StrategyError)


def test_bad_release_folders_are_folder_errors(tmp_path):
    assert kind_of(lambda: tv.read_release(tmp_path / "none")) is FolderError
    assert kind_of(lambda: tv.read_release(tmp_path)) is FolderError
    assert kind_of(lambda: tv.write_release(small_release(), tmp_path)) is FolderError
    tv.write_release(small_release(), tmp_path / "r")
    (tmp_path / "r" / "certificate.json").write_text("{")
    assert kind_of(lambda: tv.read_release(tmp_path / "r")) is FolderError


def test_bad_options_are_plain_input_errors():
    people = small_people()
    assert kind_of(lambda: people.answer("total", level="ward")) is InputError
    assert kind_of(lambda: people.answer("wage", level="county")) is InputError
    assert kind_of(lambda: tv.protect(people, small_strategy(people), seed=-1)) is InputError


def test_an_error_keeps_its_kind_and_fields_when_its_place_is_added():
    located = BudgetError("rho is 0").located("plan.toml")
    assert (type(located), str(located)) == (BudgetError, "plan.toml: rho is 0")
    unknown = UnknownUnitError("row 3: no such tract", row=2, code="9").located("people.csv")
    assert (str(unknown), unknown.row, unknown.code) == ("people.csv: row 3: no such tract", 2, "9")
