"""A full evaluation of a release: error, bias, empirical privacy loss and implausible units, as tidy frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import pandas as pd
import pyarrow as pa

from tallyveil._frozen import Frozen
from tallyveil.evaluate.bias import Definition, bias
from tallyveil.evaluate.epl.loss import EmpiricalLoss, epl, theory_of
from tallyveil.evaluate.epl.settings import ENOUGH
from tallyveil.evaluate.error import asked_of, error_by_size, error_of, levels_and_areas, sizes
from tallyveil.evaluate.implausible import COLUMNS, implausible
from tallyveil.evaluate.residuals import Over, Residuals, residuals
from tallyveil.evaluate.sources import Source, people_of, sources_of
from tallyveil.evaluate.value_counts import value_counts
from tallyveil.nouns.areas import Areas
from tallyveil.nouns.estimates import Estimates, Sample
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.release.release import Release

FRAMES = ("error", "sizes", "by_size", "bias", "epl", "implausible")


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """How a release differs from the truth. It reveals the truth and is not for publication.

    Attributes
    ----------
    error
        Statistics of the error by level and query, as :func:`~tallyveil.evaluate.error` gives them.
    sizes
        Sizes of the true counts, as :func:`~tallyveil.evaluate.sizes` gives them.
    by_size
        Error by class of true size, as :func:`~tallyveil.evaluate.error_by_size` gives it.
    bias
        Bias of totals by homogeneity, as :func:`~tallyveil.evaluate.bias` gives it.
    epl
        Empirical privacy loss by level and query, one row each.
    implausible
        Numbers of implausible units, as :func:`~tallyveil.evaluate.implausible` gives them; empty for estimates and
        samples.
    median_true
        Median of the true counts that ``error`` is about: ``level``, ``query``, ``median_true``.
    losses
        The full empirical privacy loss, with its curve, by (level, query).
    """

    error: pd.DataFrame
    sizes: pd.DataFrame
    by_size: pd.DataFrame
    bias: pd.DataFrame
    epl: pd.DataFrame
    implausible: pd.DataFrame
    median_true: pd.DataFrame
    losses: Mapping[tuple[str, str], EmpiricalLoss]

    def __post_init__(self) -> None:
        object.__setattr__(self, "losses", Frozen(dict(self.losses)))

    def __repr__(self) -> str:
        return f"Evaluation({', '.join(f'{query}@{level}' for level, query in self.losses)})"

    def frames(self) -> dict[str, pd.DataFrame]:
        """The tables by name, without the curves of the losses."""
        return {name: getattr(self, name) for name in FRAMES}

    def curves(self) -> pd.DataFrame:
        """The curve of every loss that is defined: ``x``, ``epl``, ``low``, ``high``, and where it belongs."""
        curves = [
            loss.curve.assign(level=level, query=query, largest=loss.epl, theory=loss.theory)
            for (level, query), loss in self.losses.items()
            if loss.undefined is None
        ]
        return pd.concat(curves, ignore_index=True) if curves else pd.DataFrame()

    def to_pandas(self) -> pd.DataFrame:
        """The main table: the error by level, query and statistic."""
        return self.error.copy()

    def to_arrow(self) -> pa.Table:
        """The main table as an Arrow table."""
        return pa.Table.from_pandas(self.error, preserve_index=False)


def evaluation(
    truth: Histogram | Population,
    released: Source | Sequence[Source],
    *,
    levels: Sequence[str] | None = None,
    queries: Sequence[str] | None = None,
    areas: Areas | None = None,
    over: Over = "nonempty",
    homogeneity: str = "detailed",
    definition: Definition = "cells",
    housing: Histogram | Facilities | None = None,
) -> Evaluation:
    """Compare a release with the truth, as ``tallyveil evaluate`` does.

    Parameters
    ----------
    truth, released, over
        As for :func:`~tallyveil.evaluate.residuals`.
    levels, queries, areas
        As for :func:`~tallyveil.evaluate.error`.
    homogeneity
        The query whose empty cells are counted to group units in the table of biases.
    definition
        How they are counted, as for :func:`~tallyveil.evaluate.bias`.
    housing
        As for :func:`~tallyveil.evaluate.implausible`.

    Examples
    --------
    >>> from tallyveil import Schema, Spine
    >>> spine = Spine.from_columns({"block": ["1", "2", "3"]}, root="town")
    >>> schema = Schema(attributes={"age": ["child", "adult"]})
    >>> truth = Histogram.from_entries(spine, schema, unit=[0, 0, 1], cell=[0, 1, 1], count=[10, 40, 7])
    >>> released = Histogram.from_entries(spine, schema, unit=[0, 1, 1], cell=[1, 0, 1], count=[48, 2, 7])
    >>> table = evaluation(truth, released, levels=["block"], queries=["total"]).to_pandas()
    >>> table[table.statistic == "median_abs"].value.item()
    2.0
    """
    people = people_of(truth)
    sources = sources_of(released)
    strategy = sources[0].strategy if isinstance(sources[0], Release) else None
    errors, by_size, medians, losses = [], [], [], {}
    for level, area, query in asked_of(people, levels, queries, areas):
        compared = residuals(people, sources, level=level, query=query, areas=area, over=over)
        errors.append(error_of(compared))
        by_size.append(error_by_size(compared))
        medians.append({"level": compared.level, "query": compared.query, "median_true": _median_true(compared)})
        losses[compared.level, compared.query] = epl(compared, theory=theory_of(strategy, compared), fewest=ENOUGH)
    biases = [
        bias(people, sources, level=level, areas=area, of=homogeneity, definition=definition, over=over)
        for level, area in levels_and_areas(people, levels, areas)
    ]
    return Evaluation(
        error=pd.concat(errors, ignore_index=True),
        sizes=sizes(people, levels=levels, queries=queries, areas=areas),
        by_size=pd.concat(by_size, ignore_index=True),
        bias=pd.concat(biases, ignore_index=True),
        epl=_loss_table(losses),
        implausible=_implausible(truth, sources, housing, levels),
        median_true=pd.DataFrame(medians),
        losses=losses,
    )


def _implausible(
    truth: Histogram | Population,
    sources: Sequence[Source],
    housing: Histogram | Facilities | None,
    levels: Sequence[str] | None,
) -> pd.DataFrame:
    """Implausible units; none for estimates and samples, whose counts are not those of people."""
    if any(isinstance(source, Estimates | Sample) for source in sources):
        return pd.DataFrame(columns=list(COLUMNS))
    return implausible(truth, sources, housing=housing, levels=levels)


def _loss_table(losses: Mapping[tuple[str, str], EmpiricalLoss]) -> pd.DataFrame:
    rows = [{"level": level, "query": query, **loss.as_json()} for (level, query), loss in losses.items()]
    return pd.DataFrame(rows).drop(columns=["note", "settings"])


def _median_true(compared: Residuals) -> float:
    """Median of the true counts that were compared; 0 where there are none."""
    counted = value_counts(compared.true, zeros=compared.zeros)
    return counted.percentile(50) if counted.n else 0.0
