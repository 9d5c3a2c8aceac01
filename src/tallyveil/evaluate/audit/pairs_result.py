"""The result of an audit over many pairs of neighbours: the bound, the pair that gave it, and how the others looked."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, final

from tallyveil.evaluate.audit.result import Audit

NOTE = (
    "A lower bound for the pairs and events searched, not an estimate of epsilon. The pair and the event were selected "
    "on runs of their own, so the confidence needs no correction for how many were tried. Internal: it is "
    "computed from the true counts."
)


@final
@dataclass(frozen=True, kw_only=True)
class SearchedPair:
    """How a pair looked when the pair to test was selected.

    Attributes
    ----------
    pair, neighbours
        What is special about the pair, and the two datasets in words.
    rounds
        The number of rounds of the selection that the pair stayed in.
    selection_runs
        The number of runs on each side in those rounds.
    selection_bound
        The bound on epsilon that its best event gives on these same runs, at one hundredth of the error probability.
        It ranks the pairs; no confidence is claimed for it.
    """

    pair: str
    neighbours: str
    rounds: int
    selection_runs: int
    selection_bound: float


@final
@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A kind of pair that was not searched, and why."""

    pair: str
    reason: str


@final
@dataclass(frozen=True, kw_only=True)
class AuditSearch:
    """The audit of the pair that was selected, and how it was selected.

    Attributes
    ----------
    audit
        The bound on epsilon, from runs on the selected pair that took no part in the selection.
    pair
        The selected pair.
    test_runs
        The number of runs on each side that the bound comes from.
    pairs, left_out
        All pairs that were searched, and kinds of pairs that were not.
    """

    audit: Audit
    pair: str
    test_runs: int
    pairs: tuple[SearchedPair, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def epsilon_low(self) -> float:
        """Epsilon is at least this, with the stated confidence."""
        return self.audit.epsilon_low

    @property
    def exceeds(self) -> bool:
        """Whether the bound is above what was proven."""
        return self.audit.exceeds

    @property
    def verdict(self) -> str:
        """How the bound compares with the proven epsilon, in words."""
        return self.audit.verdict

    def as_json(self) -> dict[str, Any]:
        """The figures under their JSON keys: those of an audit, and the search."""
        return {
            **self.audit.as_json(),
            "pair": self.pair,
            "test_runs": self.test_runs,
            "pairs": [asdict(pair) for pair in self.pairs],
            "left_out": [asdict(kind) for kind in self.left_out],
            "note": NOTE,
        }
