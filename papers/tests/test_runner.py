"""The frame: verdicts, a broken item, going on with a run, the page."""

import math
import re
from dataclasses import dataclass

import pandas as pd
import pytest

from tallyveil.errors import InputError
from tallyveil_papers import Figure, Item, Outcome, Setting, runner
from tallyveil_papers.figure import AGREES, DIFFERS, ERRATUM, NOT_COMPARED, SHOWN, STAND_IN
from tallyveil_papers.page import page_of
from tallyveil_papers.registry import published
from tallyveil_papers.runner import run_items


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        ({"ours": 0.5741, "published": 0.574, "tolerance": 0.0005}, AGREES),
        ({"ours": 0.5750, "published": 0.574, "tolerance": 0.0005}, DIFFERS),
        ({"ours": math.nan, "published": 0.574, "tolerance": 1.0}, DIFFERS),
        ({"ours": 0.178, "published": 0.161, "tolerance": 0.0005, "as_printed": 0.1612}, ERRATUM),
        ({"ours": 0.178, "published": 0.161, "tolerance": 0.0005, "as_printed": 0.170}, DIFFERS),
        ({"ours": 0.1612, "published": 0.161, "tolerance": 0.0005, "as_printed": 0.1612}, AGREES),  # both fit
        ({"ours": 3.0}, SHOWN),
        ({"ours": math.nan}, DIFFERS),
        ({"ours": math.nan, "published": 2.0, "left_out": "too few districts"}, NOT_COMPARED),
        ({"ours": 3.0, "again": 3.000001}, SHOWN),
        ({"ours": 3.0, "again": 3.01}, DIFFERS),
        ({"ours": 3.0, "again": 3.01, "again_within": 0.02}, SHOWN),
        ({"ours": 0.178, "published": 0.161, "as_printed": 0.161, "again": 0.178}, ERRATUM),
        ({"ours": 0.196, "published": 0.161, "as_printed": 0.161, "again": 0.178}, DIFFERS),  # ours is broken
        ({"ours": 0.161, "published": 0.161, "as_printed": 0.161, "again": 0.178}, DIFFERS),
        ({"ours": 1.6, "published": 1, "overstated": True, "quote": "about one", "again": 1.6}, ERRATUM),
        ({"ours": 1.0, "published": 1, "overstated": True, "quote": "about one", "again": 1.0}, AGREES),
        ({"ours": 1.6, "published": 1, "overstated": True, "quote": "about one", "again": 1.5}, DIFFERS),
        ({"ours": 1.6, "published": 1, "overstated": True, "quote": "about one"}, DIFFERS),  # nothing confirms it
        ({"ours": 99.5, "published": 99, "relation": ">"}, AGREES),
        ({"ours": 99.0, "published": 99, "relation": ">"}, DIFFERS),
        ({"ours": 98.9, "published": 99, "relation": ">", "as_printed": 99.1}, ERRATUM),
        ({"ours": 0.001, "published": 0.002, "relation": "<"}, AGREES),
        ({"ours": 0.003, "published": 0.002, "relation": "<"}, DIFFERS),
        ({"ours": 19.0, "published": 10.0, "stand_in": True}, STAND_IN),
        ({"ours": 10.0, "published": 10.0, "stand_in": True}, STAND_IN),  # never agreement
        ({"ours": 21.0, "published": 10.0, "stand_in": True}, DIFFERS),
        ({"ours": -9.0, "published": 10.0, "stand_in": True}, DIFFERS),
        ({"ours": 2.0, "published": 0.0, "stand_in": True, "slack": 1.0}, DIFFERS),
        ({"ours": 0.9, "published": 0.0, "stand_in": True, "slack": 1.0}, STAND_IN),
        ({"ours": 90.0, "published": 1.0, "stand_in": True, "factor": math.inf}, STAND_IN),
        ({"ours": -90.0, "published": 1.0, "stand_in": True, "factor": math.inf}, DIFFERS),
    ],
)
def test_a_figures_verdict(figure, verdict):
    found = Figure(name="x", **figure)
    assert found.verdict == verdict
    assert bool(found.apart) == (verdict == DIFFERS)


def test_a_figure_says_what_is_allowed():
    published = {"name": "x", "ours": 1.0, "published": 1.0}
    assert Figure(**published, tolerance=0.05).allowed == "0.05"
    assert Figure(**published).allowed == "exact"
    assert Figure(**published, stand_in=True, slack=0.5).allowed == "factor 2, or 0.5"
    assert Figure(**published, stand_in=True, factor=math.inf).allowed == "direction"
    assert Figure(name="x", ours=1.0).allowed == ""


def test_a_figure_that_differs_says_by_how_much():
    assert Figure(name="x", ours=21.0, published=10.0).apart == "by +11, 2.10 times"
    assert Figure(name="x", ours=-1.0, published=10.0).apart == "by -11"
    assert Figure(name="x", ours=2.0, published=2.0, again=3.0).apart == "computed again: 3"


def test_what_is_left_out_is_not_agreement_and_no_excuse():
    agrees, out, stand_in, differs = (
        Figure(name="x", ours=1.0, published=1.0),
        Figure(name="x", ours=1.0, published=9.0, left_out="a village has no states"),
        Figure(name="x", ours=1.0, published=1.5, stand_in=True),
        Figure(name="x", ours=1.0, published=1.5),
    )
    assert Outcome(figures=[agrees, out]).verdict == NOT_COMPARED
    assert Outcome(figures=[agrees, out, stand_in]).verdict == STAND_IN
    assert Outcome(figures=[agrees, out, stand_in, differs]).verdict == DIFFERS


def item(key, compute, **more):
    words = {"title": f"Title of {key}", "where": "Table 9", "what": "What it is.", "tolerance": "Half a digit."}
    return Item(key=key, calls=("tv.risk.Intruder",), compute=compute, **words, **more)


def good(setting):
    chart = pd.DataFrame({"x": [0, 1], "y": [1, setting.seed]})
    import altair as alt

    return Outcome(
        figures=[Figure(name="a <b>", at="x = 1", ours=0.5, published=0.5, tolerance=0.01)],
        charts={"curve": alt.Chart(chart).mark_line().encode(x="x:Q", y="y:Q")},
        tables={"more": chart},
        notes=["A note."],
    )


def broken(setting):
    del setting
    return Outcome(figures=[Figure(name="a", ours=0.55, published=0.5, tolerance=0.01)])


def failing(setting):
    raise ZeroDivisionError(f"by nought, seed {setting.seed}")


def test_an_item_that_is_broken_on_purpose_differs_and_one_that_fails_does_too(tmp_path):
    told = []
    done = run_items(
        [item("kazan2022.good", good), item("kazan2022.broken", broken), item("petti2020.failing", failing)],
        tmp_path,
        Setting(),
        progress=lambda one, made: told.append((one.item.key, made)),
    )
    assert [one.verdict for one in done] == [AGREES, DIFFERS, DIFFERS]
    assert done[2].failed == "ZeroDivisionError: by nought, seed 1"
    assert told == [("kazan2022.good", True), ("kazan2022.broken", True), ("petti2020.failing", True)]
    files = {path.name for path in (tmp_path / "kazan2022.good").iterdir()}
    assert files == {"item.json", "figures.csv", "more.csv", "curve.svg", "curve.png"}
    page = page_of(done, Setting(), seconds=1.0)
    assert _row(page, "agrees") == ("1", "1")
    assert _row(page, "differs") == ("2", "1")
    assert "by +0.05, 1.10 times" in page
    assert 'href="kazan2022.good/more.csv"' in page
    assert "It could not be computed: ZeroDivisionError: by nought" in page
    assert "a &lt;b&gt;" in page
    assert page.count("<svg") == 1
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


def _row(page, verdict):
    """How many items and figures have a verdict, by the table at the page's head."""
    return re.search(rf'{verdict}</span></td><td class="n"[^>]*>(\d+)</td><td class="n"[^>]*>(\d+)</td>', page).groups()


def counting(compute, calls):
    def counted(setting):
        calls.append(setting.seed)
        return compute(setting)

    return counted


def test_a_run_is_gone_on_with_and_what_failed_is_tried_again(tmp_path):
    calls, fails = [], []

    def fails_once(setting):
        fails.append(1)
        return failing(setting) if len(fails) == 1 else good(setting)

    both = [item("kazan2022.counted", counting(good, calls)), item("kazan2022.fails", fails_once)]
    run_items(both, tmp_path, Setting())
    told = []
    again = run_items(both, tmp_path, Setting(), progress=lambda _, made: told.append(made))
    assert (len(calls), len(fails), told) == (1, 2, [False, True])
    assert [one.verdict for one in again] == [AGREES, AGREES]


def test_a_folder_is_for_one_setting_and_a_foreign_one_is_left_alone(tmp_path):
    one = [item("kazan2022.good", good)]
    run_items(one, tmp_path / "papers", Setting())
    with pytest.raises(InputError, match="seed was 1, is now 2"):
        run_items(one, tmp_path / "papers", Setting(seed=2))
    mine = tmp_path / "web" / "kazan2022.good" / "notes.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        run_items(one, tmp_path / "web", Setting())
    assert [path.name for path in (tmp_path / "web").rglob("*")] == ["kazan2022.good", "notes.txt"]


@pytest.mark.parametrize(
    "harm",
    [
        lambda place: (place / "figures.csv").unlink(),
        lambda place: (place / "figures.csv").write_text((place / "figures.csv").read_text().replace("0.5", "0.9")),
        lambda place: (place / "curve.png").unlink(),
        lambda place: (place / "item.json").write_text("[]"),
        lambda place: (place / "item.json").write_text("{bad"),
        lambda place: (place / "item.json").unlink(),
    ],
)
def test_what_was_touched_is_computed_again(tmp_path, harm):
    calls = []
    one = [item("kazan2022.good", counting(good, calls))]
    run_items(one, tmp_path, Setting())
    harm(tmp_path / "kazan2022.good")
    [done] = run_items(one, tmp_path, Setting())
    assert len(calls) == 2
    assert done.figures.ours.tolist() == [0.5]
    assert (tmp_path / "kazan2022.good" / "curve.png").exists()


def test_a_verdict_that_was_edited_is_not_believed(tmp_path):
    one = [item("kazan2022.broken", broken)]
    run_items(one, tmp_path, Setting())
    told = tmp_path / "kazan2022.broken" / "item.json"
    told.write_text(told.read_text().replace('"differs"', '"agrees"'))
    assert [done.verdict for done in run_items(one, tmp_path, Setting())] == [DIFFERS]


def test_what_other_code_made_is_computed_again(tmp_path, monkeypatch):
    calls = []
    one = [item("kazan2022.good", counting(good, calls))]
    run_items(one, tmp_path, Setting())
    monkeypatch.setattr(runner, "code", lambda: "another")
    run_items(one, tmp_path, Setting())
    assert len(calls) == 2


@dataclass(frozen=True)
class Piece:
    found: pd.DataFrame


RUN = []


def piece_of(setting: Setting, n: int) -> Piece:
    """One piece of work."""
    RUN.append(n)
    if len(RUN) == 3:
        raise KeyboardInterrupt
    return Piece(found=pd.DataFrame({"x": [setting.seed / 3, n]}))


def test_finished_pieces_of_an_interrupted_item_are_kept(tmp_path):
    def pieces(setting):
        found = list(setting.map(piece_of, [Setting()] * 4, range(4)))
        return Outcome(figures=[Figure(name="sum", ours=sum(one.found.x.sum() for one in found))])

    RUN.clear()
    with pytest.raises(KeyboardInterrupt):
        run_items([item("petti2020.pieces", pieces)], tmp_path, Setting())
    [done] = run_items([item("petti2020.pieces", pieces)], tmp_path, Setting())
    assert RUN == [0, 1, 2, 2, 3]
    piece = next((tmp_path / ".pieces").glob("*-found.parquet"))
    piece.write_bytes(b"no table")
    (tmp_path / "petti2020.pieces" / "item.json").unlink()
    run_items([item("petti2020.pieces", pieces)], tmp_path, Setting())
    assert len(RUN) == 6  # the one that cannot be read is made again
    assert done.figures.ours.tolist() == [pytest.approx(4 / 3 + 6)]


def test_published_figures_are_shipped():
    assert len(published("petti_flaxman_2020_results")) == 994
    columns = ["item", "quantity", "at", "published", "digits", "unit", "corrected", "corrected_digits"]
    assert list(published("kazan_reiter_2022_values")) == columns
    assert published("kazan_reiter_2022_table1").shape == (12, 8)
    assert len(published("petti_flaxman_2020_text")) == 84
    assert set(published("petti_flaxman_2020_table_sa1")["part"]) == {"a", "b", "c"}


def test_unknown_keys_are_refused():
    from tallyveil_papers import items

    with pytest.raises(InputError, match="unknown item 'kazan'"):
        items(["kazan"])
