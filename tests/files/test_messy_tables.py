"""A draft counts everyone once, or asks: random messy tables of known people, and those that were once read wrongly."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from messy_tables import random_table

from tallyveil.errors import InputError
from tallyveil.files import codebook_from_toml, read_counts
from tallyveil.files.tables.draft import draft_table
from tallyveil.files.tables.draft.encodings import likely_encoding


@settings(max_examples=60)
@given(st.integers(0, 2**32))
@example(485)  # subtotals by an unknown word, in rows without a district
@example(70036)  # a word for people that is nearly a word for places
def test_a_draft_reads_the_people_of_a_messy_table_or_asks(tmp_path_factory, seed):
    table = random_table(np.random.default_rng(seed))
    file = tmp_path_factory.mktemp("t") / "t.csv"
    file.write_bytes(table.content)
    draft = draft_table(file)
    assert codebook_from_toml(draft.to_toml()) == draft.book
    if draft.missing:
        assert "FILL_IN" in draft.to_toml()
        return
    nil = table.made_with["nil"]
    for book in (draft.book, replace(draft.book, form=replace(draft.book.form, zeros=(*draft.book.form.zeros, nil)))):
        try:  # as it is drafted, and if the advice on empty cells is followed
            people = read_counts(file, book)
        except InputError:
            continue
        assert not table.is_ambiguous
        if table.made_with["extra"] != "two years":  # else persons, who were counted twice
            leaves = people.answer("total", level=people.spine.leaf).dense().ravel().tolist()
            assert sorted(n for n in leaves if n) == table.districts


def clinics(*, nil="", totals=True, rows=True):
    """Patients of clinics that are numbered within provinces, in Polish."""
    rng, lines = np.random.default_rng(8), []
    counts = rng.integers(0, 40, (5, 6, 3)) * (rng.random((5, 6, 3)) < 0.7)
    for i, j in np.ndindex(5, 6):
        lines.append([f"Woj. {'łęąśż'[i]}", str(j + 1), *counts[i, j], counts[i, j].sum()])
    lines += [["Ogółem", "", *counts.sum(axis=(0, 1)), counts.sum()]] if rows else []
    header = ["Województwo", "Nr przychodni", "Dzieci", "Dorośli", "Seniorzy", "Razem"]
    lines = [header, *([str(v) if v != 0 else nil for v in line] for line in lines)]
    text = "\n".join(";".join(line if totals else line[:-1]) for line in lines) + "\n"
    return text.encode("cp1250"), int(counts.sum())


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("nil", ["", "-", "0"])
def test_a_total_column_is_a_total_though_cells_are_empty(tmp_path, nil, rows):
    content, people = clinics(nil=nil, rows=rows)
    (tmp_path / "t.csv").write_bytes(content)
    draft = draft_table(tmp_path / "t.csv")
    assert (draft.book.total, draft.book.form.encoding, draft.missing) == ("Razem", "cp1250", ())
    assert draft.book.form.zeros == (() if nil == "0" else (nil,))  # the totals show it
    assert draft.book.form.total_rows == ({"Województwo": ("Ogółem",)} if rows else {})
    assert read_counts(tmp_path / "t.csv", draft.book).total() == people


@pytest.mark.parametrize("count", ["Razem", "Xyz"])
def test_rows_of_counts_are_not_taken_for_persons(count):
    rng = np.random.default_rng(2)
    rows = [[f"W{i % 4}", str(1 + i % 9), "KM"[i % 2], *rng.integers(0, 60, 1)] for i in range(122)]
    draft = draft_table(pd.DataFrame(rows, columns=["Woj", "Nr", "Plec", count]).astype(str))
    assert draft.book.layout == "long"
    assert draft.missing or draft.book.count == count


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Płeć;Ogółem;Mężczyźni", "cp1250"), ("Płeć;Łącznie;Śląskie", "iso8859-2"), ("Počet;Věk", "cp1250"),
        ("Âge;Région;Effectif élevé", "cp1252"), ("Größe;männlich", "cp1252"), ("Область;Всего", "cp1251"),  # noqa: RUF001
        ("都道府県;人口", "cp932"), ("İl;Nüfus;Yaş;Şırnak;Muğla", "cp1254"), ("Νομός;Σύνολο", "cp1253"),  # noqa: RUF001
    ],
)  # fmt: skip
def test_an_encoding_is_told_by_letters_that_one_language_has(text, encoding):
    found = likely_encoding(f"a;b\n{text}\n".encode(encoding), whole=True)
    assert (found.name, found.is_sure) == (encoding, True)
    assert likely_encoding(text.encode(), whole=True) is None


def test_an_encoding_that_letters_do_not_tell_is_shown_with_a_word_and_can_be_asked_for(tmp_path):
    (tmp_path / "t.csv").write_bytes(
        "město;muži;ženy\n".encode("cp1250") + b"P\xf8\xe8,1,2\nxa,3,4\n".replace(b",", b";")
    )
    assert "mìsto" not in draft_table(tmp_path / "t.csv").to_toml()
    asked = draft_table(tmp_path / "t.csv", encoding="cp1252")
    assert asked.book.form.encoding == "cp1252"
    with pytest.raises(InputError, match="encoding 'cp9' is unknown"):
        draft_table(tmp_path / "t.csv", encoding="cp9")
