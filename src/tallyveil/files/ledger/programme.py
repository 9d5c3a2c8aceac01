"""What the lines of a ledger say together: which measurements count, for whom, and whether the limit is kept.

A person can be in several populations, unless these were declared disjoint. The programme costs a person as much as the
costliest set of populations that can share a person; measurements of unnamed populations belong to every set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any, Literal, final

from tallyveil._frozen import Frozen
from tallyveil.errors import BudgetError, InputError
from tallyveil.files.ledger.lines import Line, Lines
from tallyveil.privacy import sentences
from tallyveil.privacy.budget import Number, exact, exact_delta, rounded_up, text
from tallyveil.privacy.pld_of_several import pld_epsilon_together
from tallyveil.privacy.several_releases import Cost, Together, compose, refuse_mixed_neighbours
from tallyveil.privacy.strategy import REPORTING_DELTA
from tallyveil.release.about import people_named

MOST_GROUPS = 1000  # sets of populations that share a person

Status = Literal["published", "reserved", "running", "spent"]
STATUS_IN_WORDS: Mapping[Status, str] = {
    "published": "published",
    "reserved": "reserved for a release to come",
    "running": "reserved by a run that has not reported back; it may have drawn noise, so it counts",
    "spent": "spent by a run that ended after noise was drawn",
}


@final
@dataclass(frozen=True, kw_only=True)
class Entry:
    """A measurement in a ledger: its cost, and what is published of it.

    ``seeded`` says that the noise came from a seed: it is for research only, and not counted. Stamps do not decide it,
    since a stamp can come from the data. Lines that do not state it are counted. ``filter`` says in words which rows
    were counted, if not all.
    """

    line: int
    status: Status
    cost: Cost
    population: str | None = None
    reference: str | None = None
    certificate: str | None = None
    stamps: tuple[str, ...] = ()
    seeded: bool = False
    filter: str | None = None
    invariants: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """What a line of the ledger records about it."""
        cost = self.cost
        return {
            "name": cost.name,
            "accountant": cost.accountant,
            "loss": str(cost.loss),
            "neighbours": cost.neighbours,
            "delta": None if cost.delta is None else text(cost.delta),
            "measurement": cost.measurement,
            "content": dict(cost.content),
            "noise": None if cost.pairs is None else [{str(p): n for p, n in pair} for pair in cost.pairs],
            "population": self.population,
            "reference": self.reference,
            "certificate": self.certificate,
            "stamps": list(self.stamps),
            "seeded": self.seeded,
            "filter": self.filter,
            "invariants": list(self.invariants),
            "constraints": list(self.constraints),
        }


@final
@dataclass(frozen=True, kw_only=True)
class Limit:
    """The largest epsilon, at a delta, that the programme may cost a person."""

    epsilon: Fraction
    delta: Fraction


@final
@dataclass(frozen=True, kw_only=True)
class Group:
    """The populations that a person can be in at once, and what their measurements cost together.

    ``other_filters`` says that the measurements have different filters, and neighbours agree on how many people pass.
    """

    populations: tuple[str, ...]
    together: Together
    other_filters: bool = False
    pld_epsilon: float | None = None
    pld_reason: str | None = None

    @property
    def loss(self) -> Fraction:
        """The smaller of the two bounds; a sum of pure epsilons exactly."""
        simple = self.together.epsilon
        return simple if self.pld_epsilon is None else min(simple, Fraction(self.pld_epsilon))

    @property
    def epsilon(self) -> float:
        """The smaller of the two bounds, rounded up."""
        return rounded_up(self.loss)

    @property
    def pure(self) -> bool:
        """Whether the bound holds without a delta: it is a sum of pure epsilons."""
        return self.together.account.delta is None and self.loss == self.together.epsilon


@final
@dataclass(frozen=True, kw_only=True)
class Programme:
    """The state of a ledger."""

    entries: tuple[Entry, ...] = ()
    limit: Limit | None = None
    disjoint: frozenset[frozenset[str]] = frozenset()

    def groups(self, *, delta: Number | None = None, pld: bool = False) -> list[Group]:
        """What the programme costs a person, for each largest set of populations, the costliest first."""
        counted = [entry for entry in self.entries if not entry.seeded]
        refuse_mixed_neighbours([entry.cost for entry in counted])  # of disjoint people too: one limit is for one kind
        spelled: dict[str, str] = {}
        for entry in counted:
            if entry.population is not None:
                spelled.setdefault(people_named(entry.population), entry.population)
        apart = frozenset(frozenset(map(people_named, pair)) for pair in self.disjoint) - self._measured_together(
            counted
        )
        at = delta if delta is not None else self._delta(counted)
        groups = []
        for people in _largest_sets(list(spelled), apart) if counted else ():
            mine = [e for e in counted if e.population is None or people_named(e.population) in people]
            together = compose([e.cost for e in mine], delta=at)
            filters = {e.filter for e in mine if e.status != "reserved" and e.cost.neighbours == "replace-one"}
            tight = pld_epsilon_together(together.counted, exact_delta(at)) if pld else (None, None)
            names = tuple(spelled[one] for one in people)
            group = Group(populations=names, together=together, other_filters=len(filters) > 1)
            groups.append(replace(group, pld_epsilon=tight[0], pld_reason=tight[1]))
        return sorted(groups, key=lambda group: -group.loss)

    def contradicted(self) -> list[tuple[str, ...]]:
        """Populations that were declared disjoint although one measurement has both names: they are the same people."""
        together = self._measured_together([entry for entry in self.entries if not entry.seeded])
        pairs = (tuple(sorted(pair)) for pair in self.disjoint if frozenset(map(people_named, pair)) in together)
        return sorted(pairs)

    def with_entry(self, entry: Entry) -> Programme:
        """The programme with another measurement."""
        return replace(self, entries=(*self.entries, entry))

    def refuse_beyond_limit(self, entry: Entry) -> None:
        """Refuse a further measurement that would exceed the limit."""
        after = self.with_entry(entry)
        groups = after.groups()  # losses that cannot be added are refused here
        if self.limit is None or self.within_limit(groups):
            return
        costliest = after.groups(pld=True)[0]
        if costliest.loss > self.limit.epsilon:
            limit = self.limit.epsilon, self.limit.delta
            raise BudgetError(sentences.beyond_limit(limit, entry.cost, costliest.loss))

    def within_limit(self, groups: Sequence[Group]) -> bool:
        """Whether the cost of every group is within the limit."""
        return self.limit is None or all(group.loss <= self.limit.epsilon for group in groups)

    def _measured_together(self, counted: Sequence[Entry]) -> frozenset[frozenset[str]]:
        """Pairs of names that one measurement has, which is of one set of people."""
        named = [(entry.cost, people_named(entry.population)) for entry in counted if entry.population is not None]
        return frozenset(
            frozenset((a, b))
            for (one, a), (other, b) in combinations(named, 2)
            if a != b and one.same_measurement(other)
        )

    def _delta(self, counted: Sequence[Entry]) -> Number:
        if self.limit is not None:
            return self.limit.delta
        deltas = {entry.cost.delta for entry in counted if entry.cost.delta is not None}
        return min(deltas) if deltas else REPORTING_DELTA


def programme_of(read: Lines) -> Programme:
    """What the lines of a ledger say together."""
    state = Programme()
    for line in read.lines:
        try:
            state = _after(state, line)
        except (KeyError, TypeError, ValueError, AttributeError, BudgetError):
            raise InputError(
                f"{read.path}, line {line.number}: cannot be understood. A newer version of tallyveil may have written "
                f"it; read it with that version."
            ) from None
    return state


def open_reservation(state: Programme, number: int | None, *statuses: Status) -> Entry:
    """The reservation on a line, which must have one of these statuses."""
    found = next((entry for entry in state.entries if entry.line == number and entry.status in statuses), None)
    if found is None:
        raise InputError(f"line {number} is no open reservation. See: tallyveil ledger FILE show")
    return found


def _after(state: Programme, line: Line) -> Programme:
    """The state after a line."""
    content, kind = line.content, line.content["entry"]
    if kind == "limit":
        limit = Limit(epsilon=exact(content["epsilon"], "epsilon"), delta=exact_delta(content["delta"]))
        return replace(state, limit=limit)
    if kind == "disjoint":
        names = [str(name) for name in content["populations"]]
        pairs = {frozenset((a, b)) for a in names for b in names if a != b}
        return replace(state, disjoint=state.disjoint | pairs)
    settled = content.get("reservation")
    if kind == "spent":  # of a reservation that another run took over, or that was settled, there is nothing to keep
        entries = (
            replace(e, status="spent") if e.line == settled and e.status == "running" else e for e in state.entries
        )
        return replace(state, entries=tuple(entries))
    kept = tuple(e for e in state.entries if settled is None or e.line != settled or e.status == "published")
    if kind == "cancelled":
        open_reservation(state, settled, "reserved")
        return replace(state, entries=kept)
    statuses: dict[str, Status] = {"release": "published", "reserved": "reserved", "running": "running"}
    return replace(state, entries=(*kept, _entry(content, line.number, statuses[kind])))


def _entry(content: Mapping[str, Any], line: int, status: Status) -> Entry:
    noise = content["noise"]
    pairs = None if noise is None else tuple(
        tuple(sorted((exact(p, "noise", zero=True), int(n)) for p, n in pair.items())) for pair in noise
    )  # fmt: skip
    if content["accountant"] not in ("pure", "zcdp"):
        raise ValueError(content)
    for name in ("name", "neighbours", "measurement", "population", "reference", "certificate", "filter"):
        if not isinstance(content.get(name), str | None):
            raise TypeError(name)
    return Entry(
        line=line,
        status=status,
        cost=Cost(
            name=content["name"],
            accountant=content["accountant"],
            loss=exact(content["loss"], "loss", zero=True),
            neighbours=content["neighbours"],
            delta=None if content["delta"] is None else exact_delta(content["delta"]),
            measurement=content["measurement"],
            pairs=pairs,
            content=Frozen({str(of): str(digest) for of, digest in content.get("content", {}).items()}),
        ),
        population=content["population"],
        reference=content["reference"],
        certificate=content["certificate"],
        stamps=tuple(content["stamps"]),
        seeded=content.get("seeded") is True,
        filter=content.get("filter"),
        invariants=tuple(content["invariants"]),
        constraints=tuple(content["constraints"]),
    )


def _largest_sets(names: Sequence[str], disjoint: frozenset[frozenset[str]]) -> Iterator[tuple[str, ...]]:
    """The largest sets of populations of which no two are disjoint (maximal cliques; Bron & Kerbosch 1973)."""
    meets = {a: {b for b in names if b != a and frozenset((a, b)) not in disjoint} for a in names}

    def extend(chosen: tuple[str, ...], more: list[str], done: list[str]) -> Iterator[tuple[str, ...]]:
        if not more and not done:
            yield chosen
            return
        pivot = max((*more, *done), key=lambda name: len(meets[name].intersection(more)))
        for name in [one for one in more if one not in meets[pivot]]:  # every largest set has one of these
            yield from extend(
                (*chosen, name),
                [one for one in more if one in meets[name]],
                [one for one in done if one in meets[name]],
            )
            more.remove(name)
            done.append(name)

    for found, people in enumerate(extend((), list(names), [])):
        if found == MOST_GROUPS:
            raise BudgetError(
                f"the disjoint populations can be combined in more than {MOST_GROUPS:,} ways. Give releases about the "
                f"same people the same name, or keep a ledger for each part of the population."
            )
        yield tuple(name for name in names if name in people)
