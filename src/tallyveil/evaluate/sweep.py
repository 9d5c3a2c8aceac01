"""A sweep: the same counts protected at many budgets and allocations, and the error of each, in one tidy table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from hashlib import sha256

import pandas as pd

from tallyveil.errors import InputError
from tallyveil.evaluate.epl.loss import epl
from tallyveil.evaluate.error import asked_of, error_of
from tallyveil.evaluate.residuals import residuals
from tallyveil.evaluate.sources import Source, people_of
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.privacy.strategy import Strategy
from tallyveil.privacy.strategy_toml import strategy_to_toml

Protect = Callable[[Strategy, int], Source]
COLUMNS = ["allocation", "strategy", "unit", "budget", "replicate", "level", "query", "statistic", "value", "n"]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run of a sweep: an allocation at a budget, and which replicate."""

    allocation: str
    strategy: Strategy
    replicate: int

    @property
    def name(self) -> str:
        """What tells it from all others, fit to name a file: a trial's strategy is public, and so is its digest."""
        words = re.sub("[^A-Za-z0-9]+", "_", f"{self.allocation}_{self.strategy.unit}_{float(self.strategy.budget):g}")
        return f"{words.strip('_')}-{self.digest}-{self.replicate}"

    @property
    def digest(self) -> str:
        """The strategy in short: allocations that share a name are told apart by it."""
        return sha256(strategy_to_toml(self.strategy).encode()).hexdigest()[:12]


def trials(strategies: Mapping[str, Iterable[Strategy]], *, replicates: int) -> list[Trial]:
    """Every run: each allocation (by name) at each of its budgets, so many times."""
    return [
        Trial(allocation=name, strategy=strategy, replicate=replicate)
        for name, budgets in strategies.items()
        for strategy in budgets
        for replicate in range(replicates)
    ]


def kept_name(trial: Trial, asked: Iterable[tuple[str, str]]) -> str:
    """Under which name a trial's table about these (level, query) pairs is kept."""
    return f"{trial.name}-{sha256(repr(list(asked)).encode()).hexdigest()[:8]}"


def sweep(
    truth: Histogram | Population,
    wanted: Iterable[Trial],
    protect: Protect,
    *,
    levels: Iterable[str] | None = None,
    queries: Iterable[str] | None = None,
    store: MutableMapping[str, pd.DataFrame] | None = None,
    progress: Callable[[str], None] | None = None,
) -> pd.DataFrame:
    """Protect and evaluate every trial.

    Parameters
    ----------
    truth
        The precise counts.
    wanted
        The runs (:func:`trials`).
    protect
        Gives a release for a strategy and a replicate.
    levels, queries
        As for :func:`~tallyveil.evaluate.error`.
    store
        Where each trial's table is kept: one that is there already is not run again, so a sweep can be resumed. It is
        for one truth.
    progress
        Called with a trial's name when it is done.

    Returns
    -------
    DataFrame
        ``allocation``, ``strategy`` (a digest), ``unit`` (epsilon or rho), ``budget``, ``replicate``, ``level``,
        ``query``, ``statistic`` (those of the error, and ``epl``), ``value``, ``n``.
    """
    people = people_of(truth)
    kept: MutableMapping[str, pd.DataFrame] = {} if store is None else store
    asked = [(str(level), query) for level, _, query in asked_of(people, levels, queries, None)]
    frames = []
    for trial in wanted:
        name = kept_name(trial, asked)
        if name not in kept:
            released = protect(trial.strategy, trial.replicate)
            parts = []
            for level, query in asked:
                found = residuals(people, released, level=level, query=query)
                figures = error_of(found)[["level", "query", "statistic", "value", "n"]]
                loss = epl(found)
                row = {"level": found.level, "query": found.query, "statistic": "epl", "value": loss.epl, "n": found.n}
                parts += [figures, pd.DataFrame([row]).astype({"value": float})]
            budget = {"unit": trial.strategy.unit, "budget": float(trial.strategy.budget), "replicate": trial.replicate}
            named = {"allocation": trial.allocation, "strategy": trial.digest, **budget}
            kept[name] = pd.concat(parts, ignore_index=True).assign(**named)[COLUMNS]
        frames.append(kept[name])
        if progress is not None:
            progress(trial.name)
    if not frames:
        raise InputError("a sweep of no trials. Give at least one.")
    return pd.concat(frames, ignore_index=True)
