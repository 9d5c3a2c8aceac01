"""Reports as text: what they say, what they never contain, and what is refused."""

import itertools
import json
import re
import shutil
import sys
from dataclasses import replace
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest
from report_town import BLOCKS, SPINE, digits_of, town, town_release, words_of, write_areas

import tallyveil as tv
from command_line import run, write_town
from small_release import small_people, small_release
from tallyveil.blue.published import published_margins
from tallyveil.errors import DataError, FolderError, InputError
from tallyveil.files.release_folder.margin_columns import write_margins
from tallyveil.privacy.guarantee import Guarantee
from tallyveil.release.certificate_page import NINE_IN_TEN, with_rounding
from tallyveil.report import internal_charts
from tallyveil.report.expected import expected_of, nine_in_ten
from tallyveil.report.geojson import read_shapes
from tallyveil.report.internal_exhibits import measured_totals
from tallyveil.report.label_places import PLACES, named_points
from tallyveil.report.learned_exhibit import learned_table, posterior_bound
from tallyveil.report.page import report_html
from tallyveil.report.plots import NAMED
from tallyveil.report.precision_exhibits import fit_levels


@pytest.fixture(scope="module")
def public():
    return report_html(town_release())


@pytest.fixture(scope="module")
def internal():
    return report_html(town_release(), audience="internal", truth=town())


def test_the_first_screen_has_a_picture_and_three_sentences(public):
    first = public[public.index('<section class="first"') : public.index("<nav")]
    assert first.count("<figure") == 1
    assert first.count('<div class="static" aria-hidden="true"><svg') == 1
    words = words_of(first)
    assert "How large is the error where you live? Nine in ten published totals of a block are expected" in words
    assert "What is promised? Nothing: this is a trial with a known seed" in words
    assert (
        "What must not be concluded? A small count that is not exact does not show that anybody is or is not there"
        in words
    )


def test_margins_are_those_of_published_counts_where_measurements_were_kept():
    release = town_release()
    expected = expected_of(release)
    margins = published_margins(release)
    np.testing.assert_array_equal(expected.margin["block"], margins.classes["block", "total"][:, 0])
    groups = expected.groups.set_index(["level", "query"]).margin
    there = release.histogram.answer("age", level="block").dense() > 0
    assert groups["block", "age"] == nine_in_ten(margins.classes["block", "age"][there])
    assert "are expected to be within about" in words_of(report_html(release))


def test_margins_larger_than_the_places_are_upper_limits():
    release = town_release(epsilon="1/10")
    totals = expected_of(release).totals.set_index("level")
    assert totals.margin["block"] > totals["median"]["block"]
    assert totals.at_most.to_dict() == {"land": False, "county": False, "block": True}
    assert measured_totals(town(), release, expected_of(release)).set_index("level").inside["block"] > 0.9


def test_margins_in_the_folder_are_used_first(tmp_path):
    release = town_release(measurements=False)
    folder = tmp_path / "release"
    tv.write_release(release, folder)
    assert expected_of(release, folder).totals.at_most.all()
    write_margins(folder, published_margins(town_release()))
    expected = expected_of(release, folder)
    assert not expected.totals.at_most.any()
    np.testing.assert_array_equal(expected.margin["block"], expected_of(town_release()).margin["block"])
    assert "the margins in the release's own tables" in words_of(report_html(folder))


def test_margins_in_the_folder_of_some_levels_only_are_not_used(tmp_path):
    release = town_release(measurements=False)
    folder = tmp_path / "release"
    tv.write_release(release, folder)
    write_margins(folder, published_margins(town_release(), levels=["county"]))
    assert expected_of(release, folder).totals.at_most.all()


def test_margins_are_those_of_the_certificate_where_no_measurements_were_kept():
    release = town_release(measurements=False)
    declared = {one.level: NINE_IN_TEN * with_rounding(one.sd) for one in release.certificate.declared.expected_error}
    totals = expected_of(release).totals.set_index("level")
    assert totals.margin.to_dict() == pytest.approx(declared)
    words = words_of(report_html(release))
    assert "that the certificate expects" in words
    assert "are expected to be within at most about" in words


def test_nine_in_ten_errors_of_unlike_counts_are_within_the_margin_of_a_level():
    rng = np.random.default_rng(5)
    margins = rng.choice([2.0, 5.0, 60.0], size=200_000)
    errors = rng.normal(scale=margins / NINE_IN_TEN)
    assert np.mean(np.abs(errors) <= nine_in_ten(margins)) == pytest.approx(0.9, abs=0.003)


def test_a_public_report_is_a_function_of_the_folder_alone(tmp_path, public):
    release = town_release()
    pairs = [(query, level) for level, queries in release.strategy.queries.items() for query in queries]
    tv.write_release(release, tmp_path / "here", measurements=pairs)
    shutil.copytree(tmp_path / "here", tmp_path / "elsewhere")
    pages = [report_html(tmp_path / name) for name in ("here", "elsewhere")]
    assert pages[0] == pages[1]
    assert words_of(pages[0]) == words_of(public)


def test_a_public_report_contains_no_true_count(tmp_path):
    counts = 1_003_019 + 7_919_037 * np.arange(len(BLOCKS))
    cell = np.arange(len(BLOCKS)) % 4
    truth = tv.Histogram.from_entries(SPINE, town().schema, unit=np.arange(len(BLOCKS)), cell=cell, count=counts)
    strategy = tv.Strategy.default(SPINE, truth.schema, epsilon="1/100")
    release = tv.protect(truth, strategy, seed=5, measurements=None)
    planted = {str(number) for number in counts.tolist()}
    for level, query in (("block", "age"), ("county", "total"), ("county", "age"), ("county", "detailed")):
        planted |= {str(number) for number in truth.answer(query, level=level).count.tolist()}
    assert all(len(number) >= 7 for number in planted)
    areas = write_areas(tmp_path)
    page = digits_of(report_html(release, areas=areas))
    assert {number for number in planted if number in page} == set()
    unprotected = digits_of(report_html(replace(release, histogram=truth), areas=areas))  # so the search can find them
    assert len({number for number in planted if number in unprotected}) >= 5


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("invariant", [None, "total@county"])
def test_a_public_report_with_invariants_names_and_margins_contains_no_other_true_count(tmp_path, kept, invariant):
    counts = 1_003_019 + 7_919_037 * np.arange(len(BLOCKS))
    truth = tv.Histogram.from_entries(
        SPINE, town().schema, unit=np.arange(len(BLOCKS)), cell=np.arange(len(BLOCKS)) % 4, count=counts
    )
    strategy = tv.Strategy.default(SPINE, truth.schema, epsilon="1/100")
    if invariant is not None:
        strategy = replace(strategy, constraints=(tv.privacy.Invariant(query="total", level="county"),))
    release = tv.protect(truth, strategy, seed=5, measurements=None if kept else ())
    folder = tmp_path / "release"
    tv.write_release(release, folder, measurements=() if not kept else None)
    again = tv.protect(release.histogram, strategy, seed=6, measurements=None)  # margins know the release alone
    write_margins(folder, published_margins(replace(again, histogram=release.histogram)))
    areas = json.loads(write_areas(tmp_path, also=("Atlantis",)).read_text())
    for i, feature in enumerate(areas["features"]):  # what else a map's file holds stays there
        feature["properties"] |= {"population": int(counts[i]), "note": f"{counts[40 + i]:,} people"}
    areas["features"][-1]["properties"] = {"population": int(counts[7])}
    (tmp_path / "planted.geojson").write_text(json.dumps(areas))
    page = digits_of(report_html(folder, areas=tmp_path / "planted.geojson"))
    planted = {str(number) for number in counts.tolist()}
    for level, query in (("block", "age"), ("county", "age"), ("county", "detailed")):
        planted |= {str(number) for number in truth.answer(query, level=level).count.tolist()}
    exact = {str(number) for number in truth.answer("total", level="county").count.tolist()}
    assert {number for number in planted if number in page} == set()
    assert {number for number in exact if number in page} == (exact if invariant else set())
    assert "feature 6 of the file" in words_of(page)


@pytest.mark.parametrize("grouped", ["7,919,037", "7.919.037", "7 919 037", "7\u202f919\u202f037", "7%2C919%2C037"])
def test_the_search_for_true_counts_sees_through_grouping(grouped):
    assert "7919037" in digits_of(f'<td class="n">{grouped}</td>')


def test_an_internal_report_says_so_first_and_in_every_table(internal, public):
    body = internal[internal.index("<body") :]
    assert words_of(body).startswith(" INTERNAL. Made from the true counts, for those who may see them.")
    tables = re.findall(r'href="data:text/csv[^"]*"', internal)
    assert len(tables) >= 10
    measured = [table for table in tables if "from%20true%20counts" in table]
    assert (
        len(measured) == len(tables) - 4
    )  # precision (of totals, groups), groups and the bound are made from the release alone
    assert "INTERNAL" not in words_of(public)
    assert "true%20counts" not in public


def test_an_internal_report_has_what_only_the_truth_tells(internal):
    words = words_of(internal)
    for heading in (
        "How far are published counts from the truth?",
        "Bias by homogeneity",
        "Bias by size",
        "Log ratio of errors one person apart",
        "The sample it resembles",
        "The most exposed units",
    ):
        assert heading in words
    assert "is not a bound on epsilon" in words


def test_measured_errors_are_those_of_evaluate(internal):
    table = tv.evaluate.error(town(), town_release(), levels=["block"], queries=["total"])
    largest = table[table.statistic == "max_abs"].value.item()
    assert f"block%2Ctotal%2C{table.n.iloc[0]}%2C" in internal.replace("block,total", "block%2Ctotal")
    assert f"{largest}" in digits_of(internal)


def test_every_chart_has_a_drawing_a_definition_a_table_and_words_for_the_blind(public, internal):
    for page in (public, internal):
        figures = re.findall(r'<figure class="exhibit".*?</figure>', page, flags=re.DOTALL)
        assert len(figures) >= 4
        for figure in figures:
            assert figure.count('<div class="static" aria-hidden="true"><svg') == 1
            assert len(re.search(r'role="img" aria-label="([^"]*)"', figure).group(1)) > 40
            for part in ('<details class="definition">', "<thead>", 'href="data:text/csv'):
                assert part in figure


def test_headings_are_in_order(internal):
    levels = [int(level) for level in re.findall(r"<h([1-6])[ >]", internal)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_the_page_may_load_nothing(public):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', public).group(1)
    assert policy.startswith("default-src 'none'; ")
    markup = re.sub(r"<script>.*?</script>", "", public, flags=re.DOTALL)
    assert re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', markup) == []


def test_labels_cannot_break_out_of_the_page():
    bad = '</script><script>alert("1")</script><b>'
    people = town()
    schema = tv.Schema(attributes={"age": [bad, "adult"], "home": ["house", "flat"]})
    people = tv.Histogram.from_entries(
        SPINE, schema, unit=people.leaves.unit(), cell=people.leaves.cell, count=people.leaves.count
    )
    release = tv.protect(
        people, tv.Strategy.default(SPINE, schema, rho=1), seed=1, about=tv.About(title=f"{bad} of 1940")
    )
    page = report_html(release, audience="internal", truth=people)
    assert "<script>alert" not in page
    assert "<b>" not in page


def test_exact_totals_are_called_exact():
    strategy = tv.Strategy.default(SPINE, town().schema, rho=1)
    exact = replace(strategy, constraints=(tv.privacy.Invariant(query="total", level="block"),))
    words = words_of(report_html(tv.protect(town(), exact, seed=1)))
    assert "Totals of all places are exact; the count of one group in a block is expected to be within at most" in words
    assert "total of every land, county and block" in words or "the number of people in all" in words


@pytest.mark.parametrize("audience", ["public", "internal"])
def test_totals_only_and_a_single_level_have_reports(audience):
    spine = tv.Spine.from_columns({"town": ["1"]})
    schema = tv.Schema(attributes={"age": ["child", "adult"]})
    one = tv.Histogram.from_entries(spine, schema, unit=[0, 0], cell=[0, 1], count=[100, 500])
    two = tv.Spine.from_columns({"block": ["1", "2", "3"]}, root="town")
    totals = tv.Histogram.from_entries(two, tv.Schema(attributes={}), unit=[0, 1], cell=[0, 0], count=[100, 5])
    for people, kept in ((one, ()), (totals, None)):
        strategy = tv.Strategy.default(people.spine, people.schema, epsilon=1)
        release = tv.protect(people, strategy, seed=1, measurements=kept)
        page = report_html(release, audience=audience, truth=people if audience == "internal" else None)
        assert "This is a trial with a known seed" in words_of(page)
        assert "like-a-sample" not in page  # a picture of one unit, or of three, would show noise


def test_constraints_that_the_certificate_lists_are_listed():
    words = words_of(report_html(small_release()))
    for constraint in small_release().certificate.declared.constraints:
        assert constraint.words in words


def test_a_release_on_an_optimised_spine_has_the_errors_of_published_units():
    blocks = [f"4400{c}00010{t}{g}{b:03}" for c in (1, 3) for t in (1, 2) for g in (1, 2) for b in range(5)]
    cuts = {"state": 2, "county": 5, "tract": 10, "block_group": 11, "block": 15}
    spine = tv.Spine.from_columns({level: [block[:cut] for block in blocks] for level, cut in cuts.items()})
    place = tv.Areas.from_codes(spine, leaf=blocks[1::2], area=["town"] * len(blocks[1::2]))
    people = tv.Histogram.from_entries(
        spine, town().schema, unit=np.arange(len(blocks)), cell=[0] * len(blocks), count=[9] * len(blocks)
    )
    strategy = tv.Strategy.default(spine, people.schema, rho=1)
    release = tv.protect(people, strategy, seed=1, measurements=None, optimised=spine.optimised(place=place))
    margins = published_margins(release, levels=["tract"], queries=["total"]).classes["tract", "total"]
    np.testing.assert_array_equal(expected_of(release).margin["tract"], margins[:, 0])
    assert "optimised spine" in words_of(report_html(release, audience="internal", truth=people))


def test_the_bound_is_reached_by_randomised_response():
    # an answer that is right with probability e / (1 + e) is epsilon-DP, and turns even odds into exactly that
    assert posterior_bound(0.5, 1.0) == pytest.approx(np.e / (1 + np.e))
    assert posterior_bound(0.1, 2.0) == pytest.approx(0.1 * np.exp(2) / (0.1 * np.exp(2) + 0.9))


def test_what_is_learned_on_average_is_below_the_bound():
    release = town_release(epsilon=1)
    table = learned_table(Guarantee.from_declared(release.certificate.declared.to_json()), release)
    known = table[table.kind == "attribute"]
    assert list(known.about) == ["age", "home"]
    assert (known.typical > 0.5).all()
    assert all(row.typical < posterior_bound(0.5, row.epsilon) for row in known.itertuples())


def test_a_map_draws_the_units_and_names_the_areas_that_are_none(tmp_path):
    path = write_areas(tmp_path, codes=("1", "2", "3", "4"), also=("Atlantis", "Lemuria"))
    page = report_html(town_release(), areas=path)
    words = words_of(page)
    assert "Areas of the map that match no unit, and are not drawn: Atlantis, Lemuria." in words
    assert "1 of the 5 units at level county have no area on the map." in words
    assert "Published total of every county" in words
    assert "Margin of the total of every county" in words


def test_areas_are_matched_by_the_property_that_names_the_most_units(tmp_path):
    areas = read_shapes(write_areas(tmp_path), SPINE)
    (county,) = areas.levels
    assert (county.level, county.key, sorted(county.shapes), county.missing) == ("county", "id", [0, 1, 2, 3, 4], 0)
    assert areas.unmatched == ["Atlantis"]
    assert areas.aspect == pytest.approx(1 / (5 * np.cos(np.radians(50.5))))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no", r"not GeoJSON \(Expecting value.*\). Give a GeoJSON file of areas."),
        ("{}", "no features are in it. Give a GeoJSON FeatureCollection of polygons."),
        ('{"features": [{"geometry": {"type": "Point"}}]}', "feature 1: its geometry is Point. Areas are Polygon or"),
        (
            '{"features": [{"properties": {"a": "x"}, "geometry": {"type": "Polygon", "coordinates": []}}]}',
            r"no property of its areas holds codes of units. Its properties are a \(x\); codes look like this: land "
            "land, county 1, block 100. Add a property with these codes, as text.",
        ),
        (f'{{"features": [{",".join(["{}"] * 3001)}]}}', "it has 3,001 areas, and a page draws at most 3,000"),
    ],
)
def test_a_map_that_cannot_be_drawn_is_refused_in_a_line(tmp_path, text, message):
    path = tmp_path / "areas.geojson"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_shapes(path, SPINE)


def test_the_truth_is_refused_in_a_public_report_and_missed_in_an_internal_one():
    with pytest.raises(InputError, match=r"a public report is made from the release alone. Leave the truth out"):
        report_html(town_release(), truth=town())
    with pytest.raises(InputError, match=r"an internal report compares with the truth. Give the true counts \(--truth"):
        report_html(town_release(), audience="internal")
    with pytest.raises(InputError, match=r"a report is public or internal. Got the audience 'all' instead."):
        report_html(town_release(), audience="all")


def test_counts_made_elsewhere_have_no_report():
    with pytest.raises(FolderError, match="this release: it has no certificate, so its errors and its guarantee are"):
        report_html(tv.Release(histogram=small_people()))


def test_a_report_is_a_page(tmp_path):
    with pytest.raises(InputError, match=r"report.pdf: a report is a page. Give a name that ends in .html."):
        tv.write_report(town_release(), tmp_path / "report.pdf")


def test_a_missing_plotting_library_is_one_line(tmp_path, monkeypatch):
    data = write_town(tmp_path)
    assert run("protect", *data, "--rho", "1", "--seed", "1", "-o", str(tmp_path / "release")).returncode == 0
    monkeypatch.setitem(sys.modules, "altair", None)
    done = run("report", str(tmp_path / "release"), "-o", str(tmp_path / "report.html"))
    assert done.returncode == 2
    assert done.stderr == "tallyveil: plots need altair. Install it: pip install altair vl-convert-python\n"
    assert not (tmp_path / "report.html").exists()


def test_the_command_writes_both_reports(tmp_path):
    data = write_town(tmp_path)
    folder, page = str(tmp_path / "release"), tmp_path / "report.html"
    assert run("protect", *data, "--rho", "1", "--seed", "1", "-o", folder).returncode == 0
    done = run("report", folder, "-o", str(page))
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(
        rf"{page}: public report, [01]\.\d MB. It opens in any browser and loads nothing.\n", done.stdout
    )
    assert page.read_text().startswith("<!doctype html>")
    done = run("report", folder, "--truth", data[0], "--audience", "internal", "-o", str(page))
    assert "INTERNAL report, made from the true counts" in done.stdout
    assert words_of(page.read_text()).count("INTERNAL") >= 1


def test_options_of_internal_reports_change_nothing_in_a_public_one(tmp_path):
    data = write_town(tmp_path)
    folder = str(tmp_path / "release")
    assert run("protect", *data, "--rho", "1", "--seed", "1", "-o", folder).returncode == 0
    pages = []
    for name, more in (("plain", []), ("more", ["--codebook", data[2], "--units", data[0], "--audience", "public"])):
        done = run("report", folder, "-o", str(tmp_path / f"{name}.html"), *more)
        assert done.returncode == 0, done.stderr
        assert f"For closer ones, first run: tallyveil uncertainty {folder}" in done.stderr
        pages.append((tmp_path / f"{name}.html").read_bytes())
    assert pages[0] == pages[1]
    done = run("report", folder, "--truth", data[0], "--audience", "public", "-o", str(tmp_path / "r.html"))
    assert done.returncode == 2
    assert "a public report is made from the release alone" in done.stderr
    assert not (tmp_path / "r.html").exists()


def test_bad_options_are_refused_before_the_work(tmp_path):
    done = run("report", str(tmp_path / "none"), "--truth", "t.csv", "-o", str(tmp_path / "r.html"))
    assert done.returncode == 2
    assert "a public report is made from the release alone" in done.stderr
    done = run("report", str(tmp_path / "none"), "-o", str(tmp_path / "r.html"))
    assert done.returncode == 2
    assert "no such folder. Give the folder of a release." in done.stderr
    done = run("report", str(tmp_path / "none"), "-o", str(tmp_path / "away" / "r.html"))
    assert done.returncode == 2
    assert f"there is no folder {tmp_path / 'away'}. Make it, or name a file elsewhere." in done.stderr


def test_about_nine_in_ten_published_totals_lie_within_their_margin_and_fewer_within_half_of_it():
    release = town_release()
    expected = expected_of(release)
    inside = measured_totals(town(), release, expected).set_index("level").inside["block"]
    assert 0.84 < inside < 0.98
    half = replace(expected, margin={level: margin / 2 for level, margin in expected.margin.items()})
    assert measured_totals(town(), release, half).set_index("level").inside["block"] < 0.8


def test_what_a_small_total_may_hide_is_said_only_where_a_small_total_is_published():
    spine = tv.Spine.from_columns({"block": [str(i) for i in range(20)]}, root="town")
    schema = tv.Schema(attributes={"age": ["child", "adult"]})
    large = np.full(20, 9000)
    for counts, said in ((large, False), (np.where(np.arange(20) < 9, 1, large), True)):
        people = tv.Histogram.from_entries(spine, schema, unit=np.arange(20), cell=np.zeros(20, int), count=counts)
        words = words_of(report_html(tv.protect(people, tv.Strategy.default(spine, schema, epsilon=1), seed=1)))
        assert ("published with no more people than its margin" in words) == said
        assert ("anybody is or is not there: it may be noise" in words) != said


def test_the_first_screen_says_how_many_counts_of_groups_are_smaller_than_their_margin():
    release = town_release(epsilon="1/10")
    expected = expected_of(release)
    published = release.histogram.answer("age", level="block").dense()
    margin = published_margins(release).classes["block", "age"]
    there = published > 0
    smaller = int((published[there] < margin[there]).sum())
    assert expected.precise["age"].tolist()[-1] == smaller
    assert expected.precise["age"].sum() == there.sum()
    words = words_of(report_html(release))
    assert "Counts of groups are less certain: " in words
    assert f"{smaller / there.sum():.0%} of the counts by age in a block, zeros aside, are smaller" in words
    assert f"Share of the counts that are smaller than their margin: {smaller / there.sum():.0%} by age" in words


def test_homogeneity_has_ticks_at_whole_numbers_of_cells_alone():
    rows = pd.DataFrame({"group": [6, 7], "n": [90, 12], "bias": [0.1, 2.0], "low": [-1.0, -3.0], "high": [1.0, 7.0]})
    drawn = internal_charts.bias_chart(rows, "empty cells", numbers=True).to_dict()
    axes = [layer["encoding"]["x"]["axis"] for layer in drawn["layer"] if "x" in layer["encoding"]]
    assert [axis["values"] for axis in axes] == [[6, 7], [6, 7]]


def test_names_in_the_chart_of_samples_cover_neither_its_line_nor_each_other():
    fraction = np.arange(1, 20) / 20
    median = np.repeat([4.0, 3.0, 2.0, 1.5, 1.0, 0.5], [3, 3, 4, 3, 3, 3])  # whole numbers: the line goes up and down
    loss = np.geomspace(0.15, 2.0, 19) * np.where(np.arange(19) % 2, 1.4, 0.8)
    samples = pd.DataFrame({"method": "sample", "fraction": fraction, "median_abs": median, "epl": loss})
    own = pd.DataFrame({"method": ["release"], "fraction": [np.nan], "median_abs": [1.6], "epl": [0.9]})
    known = pd.concat([own, samples], ignore_index=True)
    known["sample"] = ["this release", *(f"{one:.0%}" for one in fraction)]
    sizes = [(width, internal_charts.SAMPLES_HEIGHT) for width in internal_charts.SAMPLES_WIDTHS]
    named = named_points(known, "sample", NAMED, sizes=sizes, padding=internal_charts.PADDING)
    assert "this release" in set(named["sample"])
    assert len(named) >= 3
    low, high = (np.log(known[["median_abs", "epl"]].agg(how)) for how in ("min", "max"))
    for width in (290, 420, 590):
        size = np.array([width, 300.0])
        at = 30 + (np.log(known[["median_abs", "epl"]]) - low) / (high - low) * (size - 60)
        at = np.column_stack([at.iloc[:, 0], 300 - at.iloc[:, 1]])
        line = np.concatenate([np.linspace(a, b, 500) for a, b in itertools.pairwise(at[1:])])
        boxes = []
        for index, row in named.iterrows():
            dx, dy = PLACES[row.place]
            wide = 6 * len(row["sample"])
            left = at[index, 0] + dx - (wide if dx < 0 else wide / 2 if dx == 0 else 0)
            box = np.array([[left, at[index, 1] + dy - 5], [left + wide, at[index, 1] + dy + 5]])
            if row.method == "sample":
                assert not ((line > box[0]) & (line < box[1])).all(axis=1).any(), (width, row["sample"])
            assert not any((box[0] < other[1]).all() and (other[0] < box[1]).all() for other in boxes)
            boxes.append(box)


LONG = "desempregado há mais de um ano"


def test_pages_write_cells_and_queries_in_words_and_their_csv_as_programs_read_them():
    rng = np.random.default_rng(3)
    schema = tv.Schema(attributes={"sexo": ["H", "M"], "idade": ["0-24", "25-64"], "emprego": [LONG, "não"]})
    unit, cell = np.nonzero(count := rng.poisson(0.4, (len(BLOCKS), 8)))
    people = tv.Histogram.from_entries(SPINE, schema, unit=unit, cell=cell, count=count[unit, cell])
    release = tv.protect(people, tv.Strategy.default(SPINE, schema, rho=1), seed=1, measurements=None)
    page = report_html(release, audience="internal", truth=people)
    shown = re.sub(r'href="data:text/csv[^"]*"', "", page)
    cell = re.compile(rf"[HM]\*(?:0-24|25-64)\*(?:{LONG}|não)")
    assert cell.findall(shown) == []
    assert re.search(rf"[HM], (?:0-24|25-64), (?:{LONG}|não)", words_of(shown))
    exposed = shown[shown.index('id="most-exposed"') :]
    assert "\N{HORIZONTAL ELLIPSIS}" not in exposed[: exposed.index("</svg>")]  # labels of the drawing are whole
    assert "one person apart: all attributes at level" in words_of(page)
    assert cell.findall(unquote(page)) != []


def test_a_country_is_called_by_its_name_and_is_no_advice():
    spine = tv.Spine.from_columns({"il": [block[0] for block in BLOCKS], "mahalle": BLOCKS}, root="Türkiye")
    people = tv.Histogram.from_entries(
        spine, town().schema, unit=town().leaves.unit(), cell=town().leaves.cell, count=town().leaves.count
    )
    for options in ({}, {"neighbours": "add-or-remove"}):
        strategy = replace(tv.Strategy.default(spine, people.schema, epsilon=1), **options)
        words = words_of(report_html(tv.protect(people, strategy, seed=1)))
        assert re.findall(r"\b(?:an?|every|level|levels) Türkiye\b", words) == []
        assert "Prefer large places" not in words or "Prefer large places: at level il," in words
    assert "for Türkiye, which has" in words  # its total has noise if a person may be missing


def test_where_only_the_whole_is_precise_no_level_is_advised():
    release = town_release(epsilon="1/10")
    assert fit_levels(expected_of(release)) == ["land"]
    words = words_of(report_html(release))
    assert "The total of the land is precise. At no other level do nine in ten totals have a margin of 5%" in words
    assert "Prefer large places" not in words


def test_units_where_nobody_is_alone_are_not_drawn_among_those_that_have_such_people():
    spine = tv.Spine.from_columns({"block": [f"b{i:02}" for i in range(12)]}, root="town")
    counts = np.where(np.arange(12) < 2, 1, 7)
    people = tv.Histogram.from_entries(
        spine, town().schema, unit=np.repeat(np.arange(12), 2), cell=[0, 3] * 12, count=np.repeat(counts, 2)
    )
    release = tv.protect(people, tv.Strategy.default(spine, people.schema, epsilon=1), seed=1)
    page = report_html(release, audience="internal", truth=people)
    figure = page[page.index('id="most-exposed"') :]
    spec = json.loads(re.search(r'class="spec">(.*?)</script>', figure, flags=re.DOTALL).group(1))
    assert {row["unit"] for row in spec["data"]["values"]} == {"b00", "b01"}
    ticks = spec["encoding"]["x"]["axis"]["values"]
    assert ticks == list(range(max(row["unique"] for row in spec["data"]["values"]) + 1))


def test_the_sample_is_named_with_the_query_in_words():
    words = words_of(report_html(town_release(), audience="internal", truth=town()))
    assert "Counts by all attributes at level" in words
    assert "Counts of 'detailed'" not in words


def test_every_method_of_a_comparison_is_named_and_samples_only_where_there_is_room():
    fraction = np.array([0.25, 0.5, 0.75])
    samples = pd.DataFrame(
        {"method": "sample", "fraction": fraction, "median_abs": [3.0, 2.0, 1.0], "epl": [0.5, 1, 2]}
    )
    others = pd.DataFrame(
        {"method": ["release", "swap"], "fraction": np.nan, "median_abs": [2.0, 2.01], "epl": [1.0, 1.01]}
    )
    known = pd.concat([samples, others]).assign(label=["25%", "50%", "75%", "release", "swap"])
    named = named_points(known, "label", NAMED, sizes=[(420, 315)], padding=25)
    assert {"release", "swap"} <= set(named.label)
    assert "50%" not in set(named.label)
