"""The predicted variances of every level and query as a function of the shares, with gradients; public inputs only.

Queries that the leaves determine are predicted in one problem; if some are not, each query has a problem of its own,
which ends at the finest level that determines it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from tallyveil._arrays import Floats
from tallyveil.allocation.covariances import AlikeTree, Forward, of_rows
from tallyveil.allocation.precision import Pair, Spending
from tallyveil.blue.accuracy import unmeasured
from tallyveil.blue.decomposition import Marginal
from tallyveil.blue.problem import problem_of
from tallyveil.errors import InputError
from tallyveil.nouns.facilities import Facilities
from tallyveil.nouns.optimised_spine import OptimisedSpine
from tallyveil.nouns.schema import Schema
from tallyveil.nouns.spine import Spine
from tallyveil.privacy.strategy import Strategy

Estimator = Literal["tree", "topdown"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Place:
    """Where a query at a level is predicted: in which tree, at which stage."""

    tree: int
    stage: int
    marginal: Marginal
    units: Floats  # that each node stands for
    possible: Floats  # 1 for rows that anybody can be in, else 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """Variances at some shares and a budget: by level and query, nodes x rows."""

    shares: Floats
    budget: float
    forward: Sequence[Forward]
    variances: Mapping[Pair, Floats]
    places: Mapping[Pair, Place]


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """Predicted variances as a function of the shares of the strategy's measurements.

    Attributes
    ----------
    strategy
        The strategy whose measurements have the shares; with calibrated noise.
    queries
        The queries that are predicted at every level.
    estimator
        ``"tree"``: least squares over the whole tree. ``"topdown"``: a unit's own measurements and its parent.
    most
        The largest number of numbers in the covariances of a stage, if not the default.
    """

    spine: Spine
    schema: Schema
    strategy: Strategy
    queries: Sequence[str]
    facilities: Facilities | None = None
    optimised: OptimisedSpine | None = None
    estimator: Estimator = "tree"
    most: int | None = None

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The level and query of each share."""
        return tuple((spend.level, spend.query) for spend in self.strategy.spends())

    @cached_property
    def shares(self) -> Floats:
        """The shares that the strategy itself has."""
        return np.array([float(spend.share) for spend in self.strategy.spends()])

    @cached_property
    def spending(self) -> Spending:
        """How shares become precisions."""
        return Spending(strategy=self.strategy, pairs=self.pairs, levels=list(self.strategy.levels))

    @cached_property
    def trees(self) -> tuple[AlikeTree, ...]:
        """The trees, each with the queries that it answers."""
        return tuple(tree for tree, _ in self._trees)

    @cached_property
    def _trees(self) -> list[tuple[AlikeTree, list[str]]]:
        names = [self.schema.query(name).name for name in self.queries]
        together = self._tree(names)
        if together is not None and not together.problem.dropped:
            return [(together, names)]
        apart = [(self._tree([name]), [name]) for name in names]
        return [(tree, some) for tree, some in apart if tree is not None]

    def _tree(self, names: Sequence[str]) -> AlikeTree | None:
        """The tree of some queries; None if no level determines them."""
        blank = unmeasured(self.spine, self.schema, self.strategy, optimised=self.optimised)
        asked = [self.schema.query(name) for name in names]
        try:
            problem = problem_of(blank, asked, facilities=self.facilities, noise=False)
        except InputError as problem_found:
            if "do not determine the requested queries" not in str(problem_found):
                raise
            return None
        tree = AlikeTree(problem=problem, own=self.estimator == "topdown", most=self.most)
        precisions = self.spending.precisions(self.shares, float(self.strategy.budget))
        return tree if tree.determined(precisions) else None

    @cached_property
    def places(self) -> dict[Pair, Place]:
        """Where each level and query is predicted; those that nothing determines are missing."""
        found = {}
        for number, (tree, names) in enumerate(self._trees):
            for stage, information in enumerate(tree.problem.stages):
                level = information.stage.level
                if level is None:
                    continue
                for name in names:
                    query = self.schema.query(name)
                    found[level, name] = Place(
                        tree=number,
                        stage=stage,
                        marginal=tree.problem.decomposition.marginal(query),
                        units=tree.stages[stage].units,
                        possible=self.schema.possible_rows(query).astype(np.float64),
                    )
        return {
            (level, name): found[level, name]
            for level in self.strategy.levels
            for name in dict.fromkeys(self.schema.query(name).name for name in self.queries)
            if (level, name) in found
        }

    def predict(self, shares: Floats | None = None, budget: float | None = None) -> Prediction:
        """The variances at some shares and a budget; by default those of the strategy."""
        at = self.shares if shares is None else shares
        whole = float(self.strategy.budget) if budget is None else budget
        precisions = self.spending.precisions(at, whole)
        forward = [tree.forward(precisions) for tree in self.trees]
        variances = {
            pair: place.marginal.variances(forward[place.tree].V[place.stage]) for pair, place in self.places.items()
        }
        return Prediction(shares=at, budget=whole, forward=forward, variances=variances, places=self.places)

    @cached_property
    def predicted(self) -> Prediction:
        """The variances at the strategy's own shares and budget."""
        return self.predict()

    def gradient(self, at: Prediction, of: Mapping[Pair, Floats]) -> tuple[Floats, float]:
        """The gradient by share, and by the budget, from that by the variances of nodes and rows."""
        total, by_budget = np.zeros(len(self.pairs)), 0.0
        for number, tree in enumerate(self.trees):
            bars = [np.zeros_like(V) for V in at.forward[number].V]
            mine = {pair: rows for pair, rows in of.items() if self.places[pair].tree == number}
            if not mine:
                continue
            for pair, rows in mine.items():
                bars[self.places[pair].stage] += of_rows(self.places[pair].marginal, rows)
            by_precision = tree.backward(at.forward[number], bars)
            by_share, by_whole = self.spending.gradient(at.shares, at.budget, _complete(by_precision, self.pairs))
            total, by_budget = total + by_share, by_budget + by_whole
        return total, by_budget

    def mean_weights(self, pair: Pair) -> Floats:
        """The weight of each node and row in a mean over units and rows, as ``expected_accuracy`` takes it."""
        place = self.places[pair]
        rows = place.marginal.query.size
        return np.broadcast_to((place.units / (place.units.sum() * rows))[:, None], (len(place.units), rows))

    def mean_squares(self, at: Prediction) -> dict[Pair, float]:
        """The predicted mean squared error of every level and query; 0, not rounding errors, for what is exact."""
        return {
            pair: 0.0 if pair in self.exact else float((self.mean_weights(pair) * rows).sum())
            for pair, rows in at.variances.items()
        }

    @cached_property
    def exact(self) -> frozenset[Pair]:
        """The levels and queries that invariants make exact."""
        known = self.strategy.exactness(self.spine, self.schema, optimised=self.optimised)
        return frozenset((level, query) for level, query in self.places if known.holds(query, level))


def _complete(of: Mapping[str, Mapping[str, Floats]], pairs: Sequence[Pair]) -> dict[str, dict[str, Floats]]:
    """The gradient by precision with zeros for measurements that a tree does not reach."""
    out: dict[str, dict[str, Floats]] = {}
    for level, query in pairs:
        out.setdefault(level, {})[query] = of.get(level, {}).get(query, np.zeros(1))
    return out
