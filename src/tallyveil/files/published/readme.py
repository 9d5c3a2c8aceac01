"""What accompanies published tables: what they are, what is promised, and what their columns mean, in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from tallyveil.files.published.level_tables import ALL, LevelTables, is_sparse
from tallyveil.nouns.schema import DETAILED, Query
from tallyveil.privacy.guarantee import Guarantee
from tallyveil.privacy.sentences import beside_tables
from tallyveil.release.release import Release


def readme_lines(release: Release, tables: Sequence[LevelTables], *, name: str) -> list[str]:
    """The lines of the file (or sheet) called README."""
    people = release.histogram
    levels = ", ".join(f"{one.level} {one.units:,}" for one in tables)
    lines = [*_about(release, name), "", f"{people.total():,} {_counted(release)}. Number of units: {levels}.", ""]
    lines += [*_promise(release), ""]
    if people.stamps:
        lines += [*(f"Stamped: {stamp}" for stamp in people.stamps), ""]
    lines += ["What the tables contain", ""]
    for one in tables:
        queries = ", ".join(_words(query) for query in one.queries)
        lines.append(f"Level {one.level}: {queries}.")
    lines += [
        "",
        "Codes of units are text: read them as text, so that they keep their leading zeros.",
        "The wide table of a level has one row per unit. A column is named query:label, with labels joined by *.",
        f"The tidy table has one row per number and a column for each attribute; {ALL} means all labels together.",
    ]
    sparse = dict.fromkeys(query.name for one in tables for query in one.queries if is_sparse(query))
    if sparse:
        lines.append(f"The tidy table leaves out the zeros of {', '.join(sparse)}.")
    if any(one.has_margins for one in tables):
        lines.append(
            "moe90 is the margin of error at 90%: about nine in ten released counts are within it of "
            "the true count. It covers noise and post-processing, not the errors of the count itself."
        )
        lacking = dict.fromkeys(query.name for one in tables for query in one.without_margins)
        if lacking:
            lines.append(f"No margin was computed for {', '.join(lacking)}.")
    else:
        lines.append("Margins of error were not computed. The command tallyveil uncertainty computes them.")
    return lines


def _about(release: Release, name: str) -> list[str]:
    """What was released and by whom, in the words of its certificate."""
    if release.certificate is None:
        return [f"Tables of {name}"]
    said = release.certificate.declared
    words = {
        "Released by": said.organisation,
        "People counted": said.population,
        "Reference": said.reference,
        "Date": said.date,
    }
    return [said.title or f"Tables of {name}", *(f"{what}: {value}" for what, value in words.items() if value)]


def _words(query: Query) -> str:
    """The name of a query; that of the detailed one with its attributes."""
    return f"{query.name} ({' * '.join(query.factors)})" if query.name == DETAILED else query.name


def _counted(release: Release) -> str:
    """What the counts count, as the certificate says."""
    return (
        "people"
        if release.certificate is None
        else Guarantee.from_declared(release.certificate.declared.to_json()).counted
    )


def _promise(release: Release) -> list[str]:
    """The guarantee of the release in words."""
    if release.certificate is None:
        return ["The release has no certificate, so nothing is known of its protection."]
    return beside_tables(Guarantee.from_declared(release.certificate.declared.to_json()))
