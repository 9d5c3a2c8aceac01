"""The least-squares problem of a tree: what is measured where, with which variance, and what is known exactly.

Everything but the noisy answers themselves is public and known before any noise is drawn, and so are all variances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress

import numpy as np

from tallyveil._arrays import Bools, Floats, Integers
from tallyveil.blue.careful import Careful
from tallyveil.blue.coarser import Coarser, RowSums
from tallyveil.blue.decomposition import Decomposition
from tallyveil.blue.linear import inverse_on
from tallyveil.blue.measured import Known, MeasuredQuery
from tallyveil.blue.tree import Stage, stages_of
from tallyveil.blue.zeros import attributes_with_zeros, open_cells, possible_cells
from tallyveil.errors import InputError, UndeterminedError
from tallyveil.nouns.counts import Counts
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.schema import TOTAL, Query, Schema
from tallyveil.privacy.constraints import Invariant
from tallyveil.privacy.strategy import Strategy
from tallyveil.release.measurements import Ask, Measurements, SavedAnswers

NO_NOISE = 1e-9  # smaller variances are replaced by this one
SINGULAR = 1e-10  # information below this share of the largest determines nothing


@dataclass(frozen=True, kw_only=True, eq=False)
class StageInformation:
    """What is measured at a stage.

    Attributes
    ----------
    measured
        The measured queries as the strategy spells them.
    spans
        For how many levels each unit pays; 0 means that it is not measured.
    kind
        The kind of each unit: units of a kind have the same open cells and the same span.
    opened, span
        The open cells and the span of each kind.
    known
        The queries that are known exactly.
    bare
        The units about which neither they nor the units below them say anything: their parent is their only source.
    base
        The units whose estimate from below starts from their own measurements: leaves, and units above bare ones.
    """

    stage: Stage
    decomposition: Decomposition
    measured: Mapping[str, MeasuredQuery]
    spans: Integers
    kind: Integers
    opened: Bools
    span: Integers
    known: Sequence[Known] = ()
    bare: Bools
    base: Bools

    @cached_property
    def information(self) -> Floats:
        """The information of each kind: kinds x subsets x dense cells x dense cells."""
        cells, subsets = self.decomposition.dense_cells, len(self.decomposition.subsets)
        out = np.zeros((len(self.span), subsets, cells, cells))
        for one in self.measured.values():
            weight = 1.0 / one.variance[self.span]
            out += weight[:, None, None, None] * one.marginal.gram[:, None, None] * one.dense_information
        return out

    @cached_property
    def inverse(self) -> Floats:
        """The inverse of the information of each kind, on its open cells; only for kinds of base units."""
        kinds = np.unique(self.kind[self.base])
        out = np.zeros_like(self.information)
        out[kinds] = inverse_on(self.opened[kinds], self.information[kinds])
        return out

    def determined(self) -> Bools:
        """For each subset, whether the measurements of every base unit determine its cells."""
        out = np.ones(len(self.decomposition.subsets), np.bool_)
        for kind in np.unique(self.kind[self.base]):
            opened = self.opened[kind]
            values = np.linalg.eigvalsh(self.information[kind][:, opened][:, :, opened])
            if values.size:
                out &= values[:, 0] > SINGULAR * values[:, -1]
        return out

    def vector(self, ask: Ask, units: Integers, opened: Bools) -> Floats:
        """The information sum_q M_q' y_q / variance of units with the same open cells: units x open x columns."""
        out = np.zeros((len(units), int(opened.sum()), self.decomposition.columns))
        there = np.flatnonzero(self.spans[units] > 0)
        if not len(there) or not out.size:
            return out
        assert self.stage.level is not None
        total = np.zeros((len(there), *out.shape[1:]))
        for name, one in self.measured.items():
            dense = one.marginal.dense[:, opened]
            rows = np.flatnonzero(dense.any(axis=1))
            some = units[there]
            noisy = one.weighted(ask, (self.stage.level, name), some, self.spans[some], rows)
            total += dense[rows].T @ one.marginal.coordinates(noisy, rows)
        out[there] = total
        return out


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """A tree with what is measured at each stage; without ``ask`` only variances can be computed.

    With ``with_care`` it is solved in square-root form (``careful``), and its units may be partly undetermined.
    """

    decomposition: Decomposition
    stages: Sequence[StageInformation]
    ask: Ask | None
    dropped: tuple[str, ...] = ()
    coarser: Coarser | None = None
    with_care: bool = False

    @cached_property
    def careful(self) -> Careful:
        """The solution in square-root form."""
        return Careful(self)

    @property
    def last(self) -> int:
        """The last stage."""
        return len(self.stages) - 1

    def place(self, level: str) -> int:
        """The stage of a level; an error if the measurements do not reach it."""
        for number, information in enumerate(self.stages):
            if information.stage.level == level:
                return number
        raise InputError(
            f"what was measured at level {level!r} does not determine the requested queries. Ask for a coarser level "
            f"or fewer attributes, or save more measurements (protect --measurements all)."
        )

    def exactly(self, number: int) -> Bools:
        """Which subsets have exact answers at this stage or below."""
        out = np.zeros(len(self.decomposition.subsets), np.bool_)
        for information in self.stages[number:]:
            for known in information.known:
                out |= known.marginal.gram > 0
        return out


def problems_of(
    measurements: Measurements,
    asked: Sequence[Query],
    *,
    facilities: Facilities | None = None,
    noise: bool = True,
    coarser: Coarser | None = None,
    finest: str | None = None,
    saved_only: bool = True,
    together: bool = False,
    with_care: bool = False,
) -> list[Problem]:
    """The problems that answer some queries from measurements: usually one.

    Subsets of attributes never mix, so those that are measured down to different levels are problems of their own, and
    the answer to a query is the sum of what they say. If they are to stay ``together``, they are one problem, down to
    the finest level at which all are determined. Without ``noise`` no answer is ever requested, and the answers that
    would be known are taken from the strategy. With ``coarser``, they are posed on its schema. Levels below ``finest``
    are left out but for their empty cells. So are answers that were not saved; unless ``saved_only`` is false, and they
    are an error when they are requested. ``with_care`` there is one problem with all levels, whatever they determine.
    """
    spine, optimised = measurements.spine, measurements.optimised
    posed = _posed(measurements, coarser, noise=noise, saved_only=saved_only)
    known, strategy = posed.known, posed.strategy
    zeros = attributes_with_zeros(posed.schema, strategy, posed.possible) | (
        set() if coarser is None else coarser.dense
    )
    whole = Decomposition.of(posed.schema, measured=list(posed.queries.values()), asked=asked, zeros=zeros)
    split = {level for _, level in known if optimised is not None and not optimised.keeps(level)}
    stages = stages_of(spine, optimised, shared=split)
    tables = open_cells(
        stages, whole, strategy, posed.possible,
        facilities=facilities, published=measurements.published, optimised=optimised,
    )  # fmt: skip
    if finest is not None:
        end = 1 + next(number for number, stage in enumerate(stages) if stage.level == finest)
        stages, tables = stages[:end], tables[:end]
        known = {pair: answers for pair, answers in known.items() if spine.depth(pair[1]) <= spine.depth(finest)}

    def informations(decomposition: Decomposition) -> list[StageInformation]:
        out = [
            _information(measurements, stage, table, decomposition, posed)
            for stage, table in zip(stages, tables, strict=True)
        ]
        for (name, level), answers in known.items():
            number = next(i for i, s in enumerate(stages) if (s.level is None if level in split else s.level == level))
            unit = None if optimised is None or level in split else optimised.part_of.get(level)
            marginal = decomposition.marginal(posed.queries[name])
            one = Known(marginal=marginal, answers=answers, unit=unit, sums=posed.sums.get(name))
            out[number] = replace(out[number], known=(*out[number].known, one))
        return out

    ask = measurements.ask if noise else None
    if with_care:
        return [Problem(decomposition=whole, stages=informations(whole), ask=ask, coarser=coarser, with_care=True)]
    reaching = _reaching(informations(whole), together=together)
    problems = []
    for depth, subsets in reaching.items():
        part = replace(whole, subsets=subsets)
        marked = _marked(informations(part)[: depth + 1])
        assert marked is not None
        dropped = tuple(stage.level for stage in stages[depth + 1 :] if stage.level is not None)
        problems.append(Problem(decomposition=part, stages=marked, ask=ask, dropped=dropped, coarser=coarser))
    return problems


def problem_of(
    measurements: Measurements,
    asked: Sequence[Query],
    *,
    facilities: Facilities | None = None,
    noise: bool = True,
    finest: str | None = None,
    saved_only: bool = True,
) -> Problem:
    """The problem that answers some queries, down to the finest level at which all of them are determined."""
    (problem,) = problems_of(
        measurements, asked, facilities=facilities, noise=noise, finest=finest, saved_only=saved_only, together=True
    )
    return problem


@dataclass(frozen=True, kw_only=True, eq=False)
class _Posed:
    """The schema on which a problem is posed, with the measured and known queries by their names in the strategy."""

    schema: Schema
    strategy: Strategy
    possible: Bools
    available: Mapping[str, list[str]]
    known: Mapping[tuple[str, str], Counts | None]
    queries: Mapping[str, Query]
    sums: Mapping[str, RowSums]


def _posed(measurements: Measurements, coarser: Coarser | None, *, noise: bool, saved_only: bool) -> _Posed:
    schema, strategy = measurements.schema, measurements.strategy
    available = {
        level: available_queries(measurements, level) if saved_only else list(strategy.queries[level])
        for level in measurements.spine.levels
    }
    known = dict(measurements.exact) if noise else dict.fromkeys(exact_pairs(measurements))
    names = list(dict.fromkeys([*(name for some in available.values() for name in some), *(name for name, _ in known)]))
    queries = {name: schema.query(name) for name in names}
    possible = possible_cells(schema, strategy)
    if coarser is None:
        return _Posed(
            schema=schema, strategy=strategy, possible=possible,
            available=available, known=known, queries=queries, sums={},
        )  # fmt: skip
    sums = {name: found for name, query in queries.items() if (found := coarser.sums(query)) is not None}
    return _Posed(
        schema=coarser.schema,
        strategy=replace(strategy, constraints=tuple(filter(coarser.usable, strategy.constraints))),
        possible=coarser.possible_coarse,
        available={level: [name for name in some if name in sums] for level, some in available.items()},
        known={pair: answers for pair, answers in known.items() if pair[0] in sums},
        queries={name: found.coarse for name, found in sums.items()},
        sums=sums,
    )


def exact_pairs(measurements: Measurements) -> list[tuple[str, str]]:
    """The (query, level) pairs that are published exactly."""
    strategy, schema = measurements.strategy, measurements.schema
    pairs = [(one.query, one.level) for one in strategy.constraints if isinstance(one, Invariant)]
    if strategy.neighbours == "replace-one":
        pairs.append((TOTAL, measurements.published.levels[0]))
    return [(schema.query(query).name, level) for query, level in pairs]


def available_queries(measurements: Measurements, level: str) -> list[str]:
    """The measured queries of a level whose noisy answers are there."""
    names = list(measurements.strategy.queries[level])
    if isinstance(measurements.ask, SavedAnswers):
        return [name for name in names if (name, level) in measurements.ask.tables]
    return names


def _information(
    measurements: Measurements,
    stage: Stage,
    opened: Bools,
    decomposition: Decomposition,
    posed: _Posed,
) -> StageInformation:
    measured = {}
    spans = np.zeros(stage.size, np.int64)
    if stage.level is not None:
        for name in posed.available[stage.level]:
            variance = np.maximum(measurements.variances(stage.level, name), NO_NOISE)
            marginal = decomposition.marginal(posed.queries[name])
            measured[name] = MeasuredQuery(marginal=marginal, variance=variance, sums=posed.sums.get(name))
        spans = measurements.shares[stage.level].spans.astype(np.int64)
    packed = np.packbits(opened, axis=1)
    keys = np.concatenate([packed, spans[:, None].astype(np.uint8)], axis=1)
    _, first, kind = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    none = np.zeros(stage.size, np.bool_)
    return StageInformation(
        stage=stage,
        decomposition=decomposition,
        measured=measured,
        spans=spans,
        kind=kind.reshape(-1).astype(np.int64),
        opened=opened[first],
        span=spans[first],
        bare=none,
        base=none,
    )


def _reaching(informations: list[StageInformation], *, together: bool) -> dict[int, tuple[tuple[bool, ...], ...]]:
    """The subsets by the finest stage at which the measurements determine every unit, the finest first.

    If they are to stay ``together``, all at the finest stage at which every one is determined.
    """
    subsets = informations[0].decomposition.subsets
    left = np.ones(len(subsets), np.bool_)
    found = {}
    for depth in range(len(informations) - 1, -1, -1):
        marked = _marked(informations[: depth + 1])
        if marked is None:
            continue
        here = np.logical_and.reduce([left, *(information.determined() for information in marked)])
        if together and not here.all():
            continue
        if here.any():
            found[depth] = tuple(compress(subsets, here))
        left &= ~here
        if not left.any():
            return found
    raise UndeterminedError(
        "the measurements do not determine the requested queries at any level. Ask for coarser queries, or save more "
        "measurements (protect --measurements all)."
    )


def _marked(informations: Sequence[StageInformation]) -> list[StageInformation] | None:
    """Mark bare units (an unmeasured leaf, or an unmeasured unit with a bare only child) and base units.

    None if a bare unit is not an only child, so that nothing determines it.
    """
    marked: list[StageInformation] = []
    for here in reversed(informations):
        above_bare = np.ones(here.stage.size, np.bool_)
        if marked:
            child, number = here.stage.children(np.arange(here.stage.size))
            bare_child = marked[0].bare[child]
            if (bare_child & np.repeat(number > 1, number)).any():
                return None
            assert here.stage.first_child is not None
            above_bare = bare_child[here.stage.first_child[:-1]]
        bare = above_bare & ((here.spans == 0) | (not here.measured))
        marked.insert(0, replace(here, bare=bare, base=above_bare & ~bare))
    return None if marked[0].bare.any() else marked
