"""One audit that searches neighbours made from the people of a table: the family, the settings, and the runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from tallyveil.auditing.audit_job import batch_size
from tallyveil.auditing.mechanism_runs import SimpleRuns, TopDownRuns
from tallyveil.auditing.pair_family import PairFamily, pair_family
from tallyveil.evaluate.audit.learners import Learner
from tallyveil.evaluate.audit.pairs import audit_pairs, check_pairs, search_batches
from tallyveil.evaluate.audit.pairs_result import AuditSearch
from tallyveil.nouns.histogram import Histogram
from tallyveil.runs.batches import Execution, RunBatch
from tallyveil.runs.store import input_digest


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class SearchJob:
    """A mechanism, the people from whom neighbours are made, and how many runs there are.

    Attributes
    ----------
    people
        The data from which the pairs of neighbours are made.
    query
        The released counts that are compared.
    runs, confidence
        The number of runs on each side (half select the pair and the event, half test them), and the confidence of the
        bound.
    learner
        How events are learned.
    """

    mechanism: TopDownRuns | SimpleRuns
    people: Histogram
    query: str
    runs: int
    confidence: float
    learner: Learner = "linear"

    def __post_init__(self) -> None:
        check_pairs(len(self.family.pairs), self.runs, self.confidence, self.mechanism.delta)

    @cached_property
    def family(self) -> PairFamily:
        """The pairs of neighbours that are searched."""
        return pair_family(self.people, self.mechanism, query=self.query)

    @property
    def neighbours(self) -> str:
        """The neighbours in words."""
        return f"searching {len(self.family.pairs)} pairs of {self.mechanism.neighbours} neighbours"

    @property
    def batch(self) -> int:
        """The number of runs in a batch."""
        return batch_size(self.people, self.query, self.runs)

    def batches(self) -> list[RunBatch]:
        """As many batches as will be made; which pairs they are for depends on the runs."""
        return search_batches(len(self.family.pairs), self.runs, self.batch)

    def made_before(self, store: Collection[str]) -> int:
        """How many of the batches a store has; it has no others, because the settings belong to one search."""
        return len(store)

    def settings(self) -> dict[str, Any]:
        """What the stored runs depend on."""
        inputs = input_digest(self.people, self.mechanism.facilities)
        search = {"neighbours": "search", "query": self.query, "runs": self.runs, "learner": self.learner}
        return {"command": "audit", **inputs, **self.mechanism.settings(), **search, "confidence": self.confidence}

    def audit(self, execution: Execution) -> AuditSearch:
        """Make the runs that are missing, select the pair and the event, and bound epsilon from below."""
        return audit_pairs(
            self.mechanism,
            self.family.pairs,
            runs=self.runs,
            query=self.query,
            confidence=self.confidence,
            delta=self.mechanism.delta,
            proven=self.family.proven,
            learner=self.learner,
            left_out=self.family.left_out,
            execution=execution,
        )
