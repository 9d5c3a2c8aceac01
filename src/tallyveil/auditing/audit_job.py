"""One audit of a mechanism on the people of a table: the neighbour, the settings, and the runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from tallyveil.auditing.mechanism_runs import SimpleRuns, TopDownRuns
from tallyveil.evaluate.audit.audit import SIDES, audit
from tallyveil.evaluate.audit.learners import Learner
from tallyveil.evaluate.audit.result import Audit
from tallyveil.evaluate.audit.views import AuditView, neighbours_in_words, views_of
from tallyveil.nouns.histogram import Histogram
from tallyveil.runs.batches import Execution, RunBatch, batches_of, made_before
from tallyveil.runs.store import input_digest

BATCH = 250  # runs that are made, and stored, together
COUNTS = 1 << 22  # noisy counts that a batch may hold


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AuditJob:
    """A mechanism, the neighbours it is audited on, the epsilon proven for them, and how many runs there are.

    Attributes
    ----------
    people, neighbour
        D and D'.
    proven
        The epsilon proven for these neighbours at the mechanism's delta.
    query
        The released counts that are compared.
    runs, confidence
        The number of runs on each side, and the confidence of the bound.
    learner
        How events are learned.
    """

    mechanism: TopDownRuns | SimpleRuns
    people: Histogram
    neighbour: Histogram
    proven: float
    query: str
    runs: int
    confidence: float
    learner: Learner = "linear"

    @cached_property
    def views(self) -> tuple[AuditView, ...]:
        """The counts that differ between the neighbours."""
        return views_of(self.people, self.neighbour, query=self.query)

    @cached_property
    def neighbours(self) -> str:
        """The neighbours in words."""
        return neighbours_in_words(self.people, self.neighbour)

    @property
    def batch(self) -> int:
        """The number of runs in a batch."""
        return batch_size(self.people, self.query, self.runs)

    def batches(self) -> list[RunBatch]:
        """The batches of runs."""
        return batches_of(SIDES, self.runs, self.batch)

    def made_before(self, store: Collection[str]) -> int:
        """How many of the batches a store has."""
        return made_before(self.batches(), store)

    def settings(self) -> dict[str, Any]:
        """What the stored runs depend on."""
        inputs = input_digest(self.people, self.mechanism.facilities)
        compared = {"neighbours": self.neighbours, "query": self.query}
        return {"command": "audit", **inputs, **self.mechanism.settings(), **compared}

    def audit(self, execution: Execution) -> Audit:
        """Make the runs that are missing, and bound epsilon from below."""
        return audit(
            self.mechanism,
            self.people,
            self.neighbour,
            runs=self.runs,
            views=self.views,
            confidence=self.confidence,
            delta=self.mechanism.delta,
            proven=self.proven,
            learner=self.learner,
            execution=execution,
        )


def batch_size(people: Histogram, query: str, runs: int) -> int:
    """The number of runs in a batch, so that its noisy counts fit into memory."""
    counts = people.leaves.units * people.schema.query(query).size
    return max(1, min(BATCH, runs, COUNTS // max(1, counts)))
