"""The papers' TOML files: every item can be computed, and what is wrong in a file is named."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest

import tallyveil_papers
from tallyveil.errors import InputError
from tallyveil_papers import Figure, items, papers, verdicts
from tallyveil_papers.figure import AGREES, SHOWN
from tallyveil_papers.reader import paper_of
from tallyveil_papers.verdicts import judge, printed, rounding

ITEM = {"name": "table9", "title": "T", "where": "Table 9", "what": "W.", "calls": ["protect"],
        "compute": "kazan.tables.table_4", "tolerance": "None."}  # fmt: skip


def test_every_item_names_a_function_of_a_setting():
    for item in items():
        module, _, name = item.compute.args[0].rpartition(".")
        function = getattr(import_module(f"tallyveil_papers.{module}"), name)
        assert len(inspect.signature(function).parameters) == 1


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        (ITEM | {"tolerence": "x"}, "x.toml, item 'table9': unknown key 'tolerence'. Known keys are calls, compute"),
        ({key: ITEM[key] for key in ITEM if key != "where"}, "x.toml, item 'table9': 'where' is missing"),
        (ITEM | {"what": "As {usual}."}, r"x.toml, item 'table9': \{usual\} is not among the file's \[words\]"),
        (ITEM | {"figures": {"a": {"published": 1}}}, "x.toml, item 'table9', figure 'a': 'name' is missing"),
        (ITEM | {"figures": {"a": {"name": "a", "ours": 1}}}, "x.toml, item 'table9', figure 'a': unknown key 'ours'"),
    ],
)
def test_a_wrong_item_is_refused_with_its_place(item, problem):
    with pytest.raises(InputError, match=problem):
        paper_of({"key": "x2030", "title": "X", "item": [item]}, "x")


def test_an_item_is_computed_by_the_function_it_names():
    [item] = paper_of({"key": "x2030", "title": "X", "item": [ITEM]}, "x").items
    assert (item.key, item.paper, item.erratum) == ("x2030.table9", "x2030", "")


def test_words_that_items_share_are_filled_in():
    item = ITEM | {"what": "P[{error = k}]. {usual}", "erratum": "{usual}"}
    [read] = paper_of({"key": "x2030", "title": "X", "item": [item], "words": {"usual": "As usual."}}, "x").items
    assert (read.what, read.erratum) == ("P[{error = k}]. As usual.", "As usual.")


def test_every_figure_of_the_files_is_used_by_the_code():
    source = "".join(path.read_text() for path in Path(tallyveil_papers.__file__).parent.rglob("*.py"))
    for paper in papers():
        for key in paper.figures:
            assert f'.{key.rpartition(".")[2]}"' in source or f'"{key.rpartition(".")[2]}"' in source, key


def test_a_figure_joins_ours_to_what_is_printed(monkeypatch):
    facts = {"name": "risk", "published": {"1/2": 1.05, "1/50": 1.21}, "digits": 2, "again": 1.2101, "again_digits": 3}
    paper = paper_of({"key": "x2030", "title": "X", "item": [ITEM | {"figures": {"risk": facts}}]}, "x")
    monkeypatch.setattr(verdicts, "NAMES", ("x",))
    monkeypatch.setattr(verdicts, "read_paper", lambda _: paper)
    figure = judge("x2030.table9.risk", 1.2104, case="1/50", at="p=1/50", chance=0.001)
    assert figure == Figure(name="risk", at="p=1/50", ours=1.2104, published=1.21, tolerance=rounding(2) + 0.001,
                            again=1.2101, again_within=rounding(3))  # fmt: skip
    assert (figure.verdict, judge("x2030.table9.risk", 1.2101, again=1.21).verdict) == (AGREES, SHOWN)
    assert printed("x2030.table9.risk", "1/2") == 1.05


def test_a_figure_that_no_file_has_is_an_error_with_its_key():
    with pytest.raises(KeyError, match=r"kazan2022\.table9\.risk"):
        judge("kazan2022.table9.risk", 1.0)
