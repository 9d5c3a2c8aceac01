"""A sweep: the same counts protected at many budgets and allocations, and the error of each, in one tidy table."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from hashlib import sha256

import pandas as pd

from tallyveil.errors import InputError
from tallyveil.evaluate.epl.loss import epl
from tallyveil.evaluate.epl.settings import ENOUGH
from tallyveil.evaluate.error import asked_of, error_of
from tallyveil.evaluate.residuals import Residuals, residuals
from tallyveil.evaluate.sources import Source, people_of
from tallyveil.nouns.histogram import Histogram
from tallyveil.nouns.population import Population
from tallyveil.privacy.strategy import Strategy
from tallyveil.privacy.strategy_toml import strategy_to_toml
from tallyveil.runs.batches import Map

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
        """A unique name for files. The strategy of a trial is public, and so is its digest."""
        words = re.sub("[^A-Za-z0-9]+", "_", f"{self.allocation}_{self.strategy.unit}_{float(self.strategy.budget):g}")
        return f"{words.strip('_')}-{self.digest}-{self.replicate}"

    @property
    def digest(self) -> str:
        """A digest of the strategy, which distinguishes allocations of the same name."""
        return sha256(strategy_to_toml(self.strategy).encode()).hexdigest()[:12]


def trials(strategies: Mapping[str, Iterable[Strategy]], *, replicates: int) -> list[Trial]:
    """All runs: each allocation (by name) at each of its budgets, ``replicates`` times."""
    return [
        Trial(allocation=name, strategy=strategy, replicate=replicate)
        for name, budgets in strategies.items()
        for strategy in budgets
        for replicate in range(replicates)
    ]


def kept_name(trial: Trial, asked: Iterable[tuple[str, str]]) -> str:
    """The name under which the table of a trial for these (level, query) pairs is stored."""
    return f"{trial.name}-{asked_digest(asked)}"


def asked_digest(asked: Iterable[tuple[str, str]]) -> str:
    """A short name of the (level, query) pairs that are compared."""
    return sha256(repr(list(asked)).encode()).hexdigest()[:8]


def sweep(
    truth: Histogram | Population,
    wanted: Iterable[Trial],
    protect: Protect,
    *,
    levels: Iterable[str] | None = None,
    queries: Iterable[str] | None = None,
    store: MutableMapping[str, pd.DataFrame] | None = None,
    entries: MutableMapping[str, pd.DataFrame] | None = None,
    progress: Callable[[str], None] | None = None,
    map: Map = map,  # noqa: A002 (it replaces the built-in)
) -> pd.DataFrame:
    """Protect and evaluate every trial.

    Parameters
    ----------
    truth
        The true counts.
    wanted
        The runs, from :func:`trials`.
    protect
        Function that returns a release for a strategy and a replicate number.
    levels, queries
        As for :func:`~tallyveil.evaluate.error`.
    store
        Mapping in which the table of each trial is stored. A trial whose table is there already is not run again, so
        a sweep can be resumed. A store is for one truth.
    entries
        Mapping in which the residuals of each trial are stored, for
        :func:`~tallyveil.evaluate.allocation_study.study`. A trial that is missing there is run again.
    progress
        Called with the name of each trial when it is done.
    map
        Maps a function over the trials: the built-in, or that of a cluster, to which ``protect`` can then be sent.

    Returns
    -------
    DataFrame
        ``allocation``, ``strategy`` (a digest), ``unit`` (epsilon or rho), ``budget``, ``replicate``, ``level``,
        ``query``, ``statistic`` (those of the error, and ``epl``), ``value``, ``n``.
    """
    people = people_of(truth)
    stored: MutableMapping[str, pd.DataFrame] = {} if store is None else store
    asked = [(str(level), query) for level, _, query in asked_of(people, levels, queries, None)]
    named = {kept_name(trial, asked): trial for trial in wanted}
    missing = {name: trial for name, trial in named.items() if not is_kept(name, stored, entries)}
    made = iter(map(_TrialWork(people, protect, tuple(asked), entries is not None), missing.values()))
    frames = []
    for name, trial in named.items():
        if name in missing:
            table, compared = next(made)
            if entries is not None and compared is not None:
                entries[name] = compared
            stored[name] = table
        frames.append(stored[name])
        if progress is not None:
            progress(trial.name)
    if not frames:
        raise InputError("a sweep needs at least one trial.")
    return pd.concat(frames, ignore_index=True)


@dataclass(frozen=True)
class _TrialWork:
    """Protects and evaluates trials; it can be sent to other processes if ``protect`` can."""

    people: Histogram
    protect: Protect
    asked: tuple[tuple[str, str], ...]
    entries: bool

    def __call__(self, trial: Trial) -> tuple[pd.DataFrame, pd.DataFrame | None]:
        """The table of a trial, and its residuals if they are wanted."""
        released = self.protect(trial.strategy, trial.replicate)
        compared = [residuals(self.people, released, level=level, query=query) for level, query in self.asked]
        return _evaluated(trial, compared), _entries(compared) if self.entries else None


def is_kept(name: str, store: Container[str], entries: Container[str] | None) -> bool:
    """Whether a trial need not be run again."""
    return name in store and (entries is None or name in entries)


def _evaluated(trial: Trial, all_compared: Iterable[Residuals]) -> pd.DataFrame:
    """The error and the empirical privacy loss of a trial, for every (level, query)."""
    parts = []
    for compared in all_compared:
        row = {
            "level": compared.level,
            "query": compared.query,
            "statistic": "epl",
            "value": epl(compared, fewest=ENOUGH).epl,
        }
        loss = pd.DataFrame([{**row, "n": compared.n}]).astype({"value": float})
        parts += [error_of(compared)[["level", "query", "statistic", "value", "n"]], loss]
    strategy = trial.strategy
    budget = {"unit": strategy.unit, "budget": float(strategy.budget), "replicate": trial.replicate}
    named = {"allocation": trial.allocation, "strategy": trial.digest, **budget}
    return pd.concat(parts, ignore_index=True).assign(**named)[COLUMNS]


def _entries(all_compared: Iterable[Residuals]) -> pd.DataFrame:
    """The residuals of a trial, a row for each cell that is not empty in the truth or in the release."""
    frames = [
        pd.DataFrame({name: getattr(compared, name) for name in ("unit", "row", "true", "released")}).assign(
            level=compared.level, query=compared.query
        )
        for compared in all_compared
    ]
    return pd.concat(frames, ignore_index=True).astype({"level": "category", "query": "category"})
