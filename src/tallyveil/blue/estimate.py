"""``tv.estimate``: any count with its margin, from measurements alone.

Units of the measured spine come from one pass up and one down. Areas, published units that the measured spine does not
have, and covariances come from places that are carried up the tree. Nothing here can ask the truth for more than the
noisy answers that the strategy pays for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tallyveil._arrays import Floats, Integers
from tallyveil.blue.information import information_words
from tallyveil.blue.parts import level_answers, matters, reaches
from tallyveil.blue.place_figures import figures_of_places, joint_figures
from tallyveil.blue.places import places_of
from tallyveil.blue.pose import pose
from tallyveil.blue.problem import Problem
from tallyveil.blue.result import TreeEstimates
from tallyveil.errors import InputError
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.schema import Query, Schema
from tallyveil.nouns.spine import Spine
from tallyveil.nouns.tables import code_array
from tallyveil.release.measurements import Measurements
from tallyveil.release.plan import level_queries
from tallyveil.release.release import Release

PLACES_AT_ONCE = 1 << 10  # places carried up the tree together
LARGEST_JOINT = 2_000  # figures whose covariances are computed together


def estimate(
    source: Release | Measurements,
    *,
    levels: Sequence[str] | None = None,
    queries: Sequence[str] | None = None,
    areas: Areas | None = None,
    facilities: Facilities | None = None,
    confidence: float = 0.9,
    covariance: bool = False,
) -> TreeEstimates:
    """Best linear unbiased estimates of counts with exact standard deviations, from noisy measurements.

    Parameters
    ----------
    source
        A release that kept its measurements, or measurements.
    levels
        Published levels whose units are estimated; by default all levels, or none if ``areas`` are given.
    queries
        The queries; by default those of the release's tables by level that the measurements determine.
    areas
        Areas off the spine, each made of whole leaves.
    facilities
        The public facilities that the strategy's bounds refer to; by default those of the release.
    confidence
        Of the intervals.
    covariance
        Also compute the covariances of all figures, for shares, differences, ranks and simultaneous intervals.

    Examples
    --------
    >>> import tallyveil as tv
    >>> spine = tv.Spine.from_columns({"block": ["1", "2"]}, root="town")
    >>> schema = tv.Schema(attributes={"age": ["child", "adult"]})
    >>> people = tv.Histogram.from_entries(spine, schema, unit=[0, 0, 1], cell=[0, 1, 1], count=[10, 40, 7])
    >>> release = tv.protect(people, tv.Strategy.default(spine, schema, rho=1), seed=1, measurements=None)
    >>> tv.estimate(release, queries=["total"]).to_pandas()[["level", "unit", "estimate", "sd"]].round(2)
       level  unit  estimate    sd
    0   town  town     57.00  0.00
    1  block     1     50.33  1.15
    2  block     2      6.67  1.15
    """
    measurements, built = measurements_of(source, facilities)
    spine, schema = measurements.published, measurements.schema
    if areas is not None and areas.spine != spine:
        raise InputError(f"the areas are on another spine ({areas.spine}) than the counts ({spine}). Build them on it.")
    chosen = list(levels) if levels is not None else [] if areas is not None else list(spine.levels)
    for level in chosen:
        spine.depth(level)  # an unknown level is refused before the work
    named = queries_by_level(measurements, chosen, queries)
    of_areas = list(
        dict.fromkeys(name for level in spine.levels for name in level_queries(measurements.strategy, schema, level))
    )
    area_queries = [schema.query(name).name for name in queries or of_areas] if areas is not None else []
    asked = {level: _parsed(schema, names) for level, names in named.items()}
    problems = pose(measurements, asked, areas=_parsed(schema, area_queries), facilities=built)
    words = information_words(problems, measurements)
    if queries is None:
        named, missing = _determined(problems, schema, named)
        words += missing
    if covariance:
        table, matrix = _jointly(problems, measurements, named, areas, area_queries)
        return TreeEstimates.of(table, information=words, confidence=confidence, covariance=matrix)
    tables = [table for _, table in _level_pieces(problems, measurements, named)]
    if areas is not None:
        tables += _area_pieces(problems, measurements, areas, area_queries)
    return TreeEstimates.of(
        pa.concat_tables(tables, promote_options="default"), information=words, confidence=confidence
    )


def estimate_pieces(
    measurements: Measurements, *, facilities: Facilities | None = None, queries: Sequence[str] | None = None
) -> Iterator[tuple[str, pa.Table]]:
    """The estimates of all units of all published levels in pieces, each with its level; for files."""
    problems, named = estimation_problems(measurements, facilities=facilities, queries=queries)
    yield from _level_pieces(problems, measurements, named)


def estimation_problems(
    measurements: Measurements,
    *,
    facilities: Facilities | None = None,
    queries: Sequence[str] | None = None,
    noise: bool = True,
) -> tuple[list[Problem], dict[str, list[str]]]:
    """The problems of all published levels, and the queries to estimate at each level."""
    named = queries_by_level(measurements, list(measurements.published.levels), queries)
    asked = {level: _parsed(measurements.schema, names) for level, names in named.items()}
    return pose(measurements, asked, facilities=facilities, noise=noise), named


def measurements_of(
    source: Release | Measurements, facilities: Facilities | None
) -> tuple[Measurements, Facilities | None]:
    """The measurements of a source, with the facilities."""
    if isinstance(source, Measurements):
        return source, facilities
    if source.measurements is None:
        raise InputError(
            "the release kept no measurements, and estimates with margins come from them. Protect again with the same "
            "key and --measurements all."
        )
    return source.measurements, source.facilities if facilities is None else facilities


def queries_by_level(
    measurements: Measurements, levels: Sequence[str], queries: Sequence[str] | None
) -> dict[str, list[str]]:
    """The queries to estimate at each level, each once."""
    schema, strategy = measurements.schema, measurements.strategy
    return {
        level: list(
            dict.fromkeys(schema.query(name).name for name in queries or level_queries(strategy, schema, level))
        )
        for level in levels
    }


def _determined(
    problems: Sequence[Problem], schema: Schema, named: Mapping[str, list[str]]
) -> tuple[dict[str, list[str]], str]:
    """The queries that the measurements determine at each level, and words about the others."""
    there = {
        level: [name for name in names if reaches(problems, level, schema.query(name))]
        for level, names in named.items()
    }
    missing = [f"{name} of {level}" for level, names in named.items() for name in names if name not in there[level]]
    if named and not any(there.values()):
        return dict(named), ""  # refused where it is computed
    return there, f"; not determined and left out: {', '.join(missing)}" if missing else ""


def _level_pieces(
    problems: Sequence[Problem], measurements: Measurements, named: Mapping[str, list[str]]
) -> Iterator[tuple[str, pa.Table]]:
    """The estimates of published levels in pieces: from the tree where it has their units, else as places."""
    optimised, spine, schema = measurements.optimised, measurements.published, measurements.schema
    queries = {level: [schema.query(name) for name in names] for level, names in named.items()}
    kept = {level: asked for level, asked in queries.items() if optimised is None or optimised.keeps(level)}
    for found in level_answers(problems, kept):
        units = found.units if optimised is None else optimised.part_of[found.level][found.units]
        codes = code_array(spine, found.level, units)
        for query in kept[found.level]:
            numbers = found.answers[query.name], np.sqrt(found.variances[query.name])[found.of]
            yield found.level, _table(codes, query, numbers, level=found.level)
    for level in named:
        if level not in kept:
            owner = owners(spine, level)
            codes = code_array(spine, level, np.arange(spine.size(level)))
            for query, first, numbers in of_leaf_places(problems, measurements, owner, queries[level]):
                yield level, _table(codes.slice(first, len(numbers[0])), query, numbers, level=level)


def _area_pieces(
    problems: Sequence[Problem], measurements: Measurements, areas: Areas, names: Sequence[str]
) -> list[pa.Table]:
    queries = [measurements.schema.query(name) for name in names]
    tables, codes = [], pa.array(areas.names, pa.string())
    owner = areas.of_leaf.astype(np.int64)
    for query, first, numbers in of_leaf_places(problems, measurements, owner, queries):
        tables.append(_table(codes.slice(first, len(numbers[0])), query, numbers, area=True))
    return tables


def of_leaf_places(
    problems: Sequence[Problem], measurements: Measurements, owner: Integers, queries: Sequence[Query]
) -> Iterator[tuple[Query, int, tuple[Floats, Floats]]]:
    """Estimates of places made of published leaves (-1 for none), some places at a time."""
    count = int(owner.max(initial=-1)) + 1
    for first in range(0, count, PLACES_AT_ONCE):
        last = min(first + PLACES_AT_ONCE, count)
        inside = np.where((owner >= first) & (owner < last), owner - first, -1)
        sums = {
            query: (np.zeros((last - first, query.size)), np.zeros((last - first, query.size))) for query in queries
        }
        for problem in problems:
            if not any(matters(problem, query) for query in queries):
                continue
            members = [members_of_leaves(problem, measurements, inside)]
            places = places_of(problem, members, last - first, joint=False)
            for query, (answers, variances) in zip(queries, figures_of_places(problem, places, queries), strict=True):
                sums[query][0][:] += answers
                sums[query][1][:] += variances
        for query, (answers, variances) in sums.items():
            yield query, first, (answers, np.sqrt(variances))


def members_of_leaves(problem: Problem, measurements: Measurements, owner: Integers) -> tuple[int, Integers, Integers]:
    """Places made of published leaves as units of the last stage that the measurements determine."""
    spine, optimised = measurements.spine, measurements.optimised
    mine = owner if optimised is None else owner[optimised.leaf]
    level = problem.stages[problem.last].stage.level
    assert level is not None
    first = spine.leaves_under(level)
    place = mine[first[:-1]]
    if (np.repeat(place, np.diff(first)) != mine).any():
        raise InputError(
            f"what was measured below level {level!r} does not determine the requested queries, and an area cuts units "
            f"of that level. Ask for coarser queries, or save more measurements (protect --measurements all)."
        )
    inside = np.flatnonzero(place >= 0)
    return problem.last, inside, place[inside]


def _jointly(
    problems: Sequence[Problem],
    measurements: Measurements,
    named: Mapping[str, list[str]],
    areas: Areas | None,
    area_queries: Sequence[str],
) -> tuple[pa.Table, Floats]:
    """All figures with their covariances, level by level, unit by unit, query by query."""
    spine, schema = measurements.published, measurements.schema
    groups = [
        _Group(
            code_array(spine, level, np.arange(spine.size(level))), owners(spine, level), _parsed(schema, names), level
        )
        for level, names in named.items()
    ]
    if areas is not None:
        codes, owner = pa.array(areas.names, pa.string()), areas.of_leaf.astype(np.int64)
        groups.append(_Group(codes, owner, _parsed(schema, area_queries), None))
    figures = sum(len(group.codes) * sum(query.size for query in group.queries) for group in groups)
    if figures > LARGEST_JOINT:
        raise InputError(
            f"covariances of {figures:,} figures would be {figures**2:,} numbers; at most {LARGEST_JOINT:,} figures "
            f"are computed together. Name fewer levels, areas or queries."
        )
    queries = list({query.name: query for group in groups for query in group.queries}.values())
    places = sum(len(group.codes) for group in groups)
    rows = np.cumsum([0, *(query.size for query in queries)])
    answers = np.zeros((places, rows[-1]))
    whole = np.zeros((places * rows[-1], places * rows[-1]))
    for problem in problems:
        members, start = [], 0
        for group in groups:
            if any(matters(problem, query) for query in group.queries):
                number, units, place = members_of_leaves(problem, measurements, group.owner)
                members.append((number, units, place + start))
            start += len(group.codes)
        more, covariance = joint_figures(problem, places_of(problem, members, places, joint=True), queries)
        answers += more
        whole += covariance
    deviations = np.sqrt(np.maximum(np.diag(whole), 0.0)).reshape(places, -1)
    tables, chosen, start = [], [], 0
    first = dict(zip((query.name for query in queries), rows[:-1].tolist(), strict=True))
    for group in groups:
        for unit in range(len(group.codes)):
            for query in group.queries:
                at = slice(first[query.name], first[query.name] + query.size)
                numbers = answers[start + unit, at][None], deviations[start + unit, at][None]
                chosen.append((start + unit) * rows[-1] + np.arange(at.start, at.stop))
                code = group.codes.slice(unit, 1)
                tables.append(_table(code, query, numbers, level=group.level, area=group.level is None))
        start += len(group.codes)
    order = np.concatenate(chosen)
    return pa.concat_tables(tables, promote_options="default"), whole[np.ix_(order, order)]


class _Group(NamedTuple):
    """Places whose figures are wanted: the units of a level, or areas."""

    codes: pa.Array
    owner: Integers
    queries: list[Query]
    level: str | None


def _parsed(schema: Schema, names: Sequence[str]) -> list[Query]:
    return [schema.query(name) for name in names]


def owners(spine: Spine, level: str) -> Integers:
    """The unit of a level that each leaf lies in."""
    bounds = spine.leaves_under(level)
    return np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))


def _table(
    codes: pa.Array,
    query: Query,
    numbers: tuple[Floats, Floats],
    *,
    level: str | None = None,
    area: bool = False,
) -> pa.Table:
    """Estimates of a query as a table: ``level`` or ``area``, ``unit``, ``query``, ``cell``, ``estimate``, ``sd``."""
    labels = query.labels()
    size = len(codes) * len(labels)
    unit = np.repeat(np.arange(len(codes), dtype=np.int32), len(labels))
    cell = np.tile(np.arange(len(labels), dtype=np.int32), len(codes))
    none = pa.array(np.zeros(size, np.int32))
    units = pa.DictionaryArray.from_arrays(pa.array(unit), codes)
    columns = {"area": units} if area else {"level": pa.DictionaryArray.from_arrays(none, pa.array([level]))}
    columns |= {
        "unit": units,
        "query": pa.DictionaryArray.from_arrays(none, pa.array([query.name])),
        "cell": pa.DictionaryArray.from_arrays(pa.array(cell), pa.array(labels, pa.string())),
        "estimate": pa.array(numbers[0].reshape(-1)),
        "sd": pa.array(numbers[1].reshape(-1)),
    }
    return pa.table(columns)
