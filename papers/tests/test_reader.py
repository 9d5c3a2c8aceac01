"""The papers' TOML files: every item can be computed, and what is wrong in a file is named."""

import inspect
from importlib import import_module

import pytest

from tallyveil.errors import InputError
from tallyveil_papers import items
from tallyveil_papers.reader import paper_of

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
    ],
)
def test_a_wrong_item_is_refused_with_its_place(item, problem):
    with pytest.raises(InputError, match=problem):
        paper_of({"key": "x2030", "title": "X", "item": [item]}, "x")


def test_an_item_is_computed_by_the_function_it_names():
    [item] = paper_of({"key": "x2030", "title": "X", "item": [ITEM]}, "x").items
    assert (item.key, item.paper, item.erratum) == ("x2030.table9", "x2030", "")
