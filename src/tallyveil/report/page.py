"""A report on a release: one HTML file that needs no network, for the public or for those who may see the truth.

The public report is a function of the release alone. The internal one also compares it with the truth, and says so on
every page. Charts are Vega-Lite: the libraries that draw them are inside the file, and every chart also has a fixed
drawing, which paper and browsers without scripts show.
"""

from __future__ import annotations

from functools import cache
from os import PathLike
from pathlib import Path
from typing import Literal, get_args

from markupsafe import Markup

from tallyveil.errors import FolderError, InputError
from tallyveil.evaluate.sources import people_of
from tallyveil.files.release_folder.read_folder import read_release
from tallyveil.files.tables.write import write_text
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.privacy import sentences
from tallyveil.privacy.guarantee import Guarantee
from tallyveil.release.canonical import canonical_bytes, parse_json
from tallyveil.release.certificate import Certificate
from tallyveil.release.certificate_page import page_template, plain_facts
from tallyveil.release.release import Release
from tallyveil.report.choropleth import map_section
from tallyveil.report.error_exhibits import groups, hero
from tallyveil.report.expected import Expected, expected_of
from tallyveil.report.geojson import Areas, read_shapes
from tallyveil.report.internal import INTERNAL
from tallyveil.report.internal_exhibits import internal_sections, measured_totals
from tallyveil.report.learned_exhibit import learned
from tallyveil.report.plots import altair
from tallyveil.report.precision_exhibits import precision, precision_of_groups
from tallyveil.report.report_words import caution_sentence, error_sentence, misuses, uses
from tallyveil.report.section import Section

Audience = Literal["public", "internal"]


def write_report(
    release: Release | str | PathLike[str],
    path: str | PathLike[str],
    *,
    audience: Audience = "public",
    truth: Histogram | Population | None = None,
    areas: str | PathLike[str] | None = None,
) -> Path:
    """Write a report on a release as one HTML file.

    Parameters
    ----------
    release
        A release or its folder.
    path
        The file to write, which ends in ``.html``.
    audience
        ``"public"``, made from the release alone, or ``"internal"``, which needs the truth.
    truth
        The true counts, for an internal report only.
    areas
        GeoJSON file of areas to draw; one of their properties holds the codes of units.
    """
    target = Path(path)
    check_page_name(target)
    write_text(report_html(release, audience=audience, truth=truth, areas=areas), target)
    return target


def report_html(
    release: Release | str | PathLike[str],
    *,
    audience: Audience = "public",
    truth: Histogram | Population | None = None,
    areas: str | PathLike[str] | None = None,
) -> str:
    """The report as text; the parameters are those of :func:`write_report`."""
    check_audience(audience, has_truth=truth is not None)
    altair()  # a missing library is refused before the work
    name = "this release" if isinstance(release, Release) else str(release)
    made = release if isinstance(release, Release) else read_release(release)
    certificate = _certificate(made, name)
    expected = expected_of(made, None if isinstance(release, Release) else Path(release))
    shapes = None if areas is None else read_shapes(areas, made.histogram.spine)
    return _rendered(made, certificate, expected, None if truth is None else people_of(truth), shapes)


def check_page_name(path: Path) -> None:
    """Refuse a name that a browser would not open as a page, or a folder that does not exist, before the work."""
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}. Make it, or name a file elsewhere.")
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{path}: a report is a page. Give a name that ends in .html.")


def check_audience(audience: str, *, has_truth: bool) -> None:
    """Refuse a public report with the truth, and an internal one without it."""
    if audience not in get_args(Audience):
        raise InputError(f"a report is public or internal. Got the audience {audience!r} instead.")
    if audience == "public" and has_truth:
        raise InputError(
            "a public report is made from the release alone. Leave the truth out, or ask for the internal report "
            "(--audience internal)."
        )
    if audience == "internal" and not has_truth:
        raise InputError("an internal report compares with the truth. Give the true counts (--truth DATA).")


def _certificate(release: Release, name: str) -> Certificate:
    if release.certificate is None or release.strategy is None:
        lacks = "certificate" if release.certificate is None else "strategy"
        raise FolderError(
            f"{name}: it has no {lacks}, so its errors and its guarantee are unknown. Give the folder of a release "
            f"that tallyveil protect made."
        )
    return release.certificate


def _rendered(
    release: Release, certificate: Certificate, expected: Expected, truth: Histogram | None, areas: Areas | None
) -> str:
    strategy = release.strategy
    assert strategy is not None
    declared = parse_json(canonical_bytes(certificate.to_json()))["declared"]
    promised = Guarantee.from_declared(declared)
    found = None if truth is None else measured_totals(truth, release, expected)
    return page_template("report.html", "tallyveil.report").render(
        plain_facts(declared, strategy),
        picture=hero(expected, found),
        answers=[
            ("How large is the error where you live?", error_sentence(expected, found)),
            ("What is promised?", sentences.to_you(promised)),
            ("What must not be concluded?", caution_sentence(expected)),
        ],
        sections=_sections(release, promised, expected, truth, areas),
        uses=uses(expected, measurements=release.measurements is not None),
        misuses=misuses(expected),
        internal=None if truth is None else INTERNAL,
        bundle=_bundle(),
        versions=declared["versions"],
    )


def _sections(
    release: Release, promised: Guarantee, expected: Expected, truth: Histogram | None, areas: Areas | None
) -> list[Section]:
    errors = [one for one in (precision(expected), precision_of_groups(expected), groups(expected)) if one is not None]
    return [
        Section(key="errors", title="How large errors are", exhibits=errors),
        *([] if areas is None else [map_section(areas, release.histogram.spine, expected)]),
        *([] if truth is None else internal_sections(truth, release, expected)),
        Section(key="risk", title="What an intruder can learn", exhibits=[learned(promised, release)]),
    ]


@cache
def _bundle() -> Markup:
    """The JavaScript that draws charts: Vega, Vega-Lite and vega-embed, as vl-convert carries them."""
    import vl_convert

    script = vl_convert.javascript_bundle("window.drawChart = vegaEmbed;")
    return Markup(script.replace("</script", "<\\/script").replace("<!--", "<\\!--"))
