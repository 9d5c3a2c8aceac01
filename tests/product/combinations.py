"""Combinations of options, two by two: every allowed pair of values of two options occurs in some combination."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

OPTIONS: dict[str, tuple[str, ...]] = {
    "noise": ("geometric", "zcdp", "pld"),
    "neighbours": ("replace-one", "add-or-remove"),
    "estimator": ("topdown", "tree"),
    "spine": ("standard", "optimised", "only-child", "alone"),  # alone: a level of only children, without the rule
    "invariant": ("none", "total@county", "home@block"),
    "bounds": ("none", "query", "query unchecked", "facilities", "facilities unchecked"),
    "zeros": ("none", "codebook", "strategy", "both"),
    "filter": ("none", "where", "public"),
    "layout": ("long", "wide", "persons"),
    "person": ("none", "1", "3"),  # a column of identifiers, and the most rows of one
    "releases": ("one", "two"),
    "key": ("system", "seed", "file"),
    "signed": ("no", "yes"),
    "delta": ("1e-10", "1e-4"),
    "budget": ("small", "large"),
    "units": ("listed", "from data"),
}


@dataclass(frozen=True)
class Rule:
    """Combinations that do not exist (`refused` is None), or that the program refuses, with words of its line."""

    holds: Callable[[dict[str, str]], bool]
    words: str
    refused: str | None = None
    needs: frozenset[str] = field(default_factory=frozenset)


RULES = (
    Rule(
        lambda c: c["neighbours"] == "add-or-remove" and c["invariant"] != "none",
        "under add-or-remove neighbours an invariant would leave no neighbours",
        refused="add-or-remove",
        needs=frozenset({"neighbours", "invariant"}),
    ),
    Rule(
        lambda c: c["noise"] == "pld" and c["person"] == "3",
        "the distribution of the loss is computed for one record",
        refused="one record per person",
        needs=frozenset({"noise", "person"}),
    ),
    Rule(
        lambda c: c["layout"] != "persons" and c["person"] != "none",
        "only persons have identifiers",
        needs=frozenset({"layout", "person"}),
    ),
    Rule(
        lambda c: c["noise"] == "geometric" and c["delta"] != "1e-10",
        "geometric noise has no delta",
        needs=frozenset({"noise", "delta"}),
    ),
    Rule(
        lambda c: c["key"] == "seed" and c["signed"] == "yes",
        "a signature on a seeded release adds nothing that can be read",
        needs=frozenset({"key", "signed"}),
    ),
)


def allowed(case: dict[str, str]) -> bool:
    """Whether a combination, or a part of one, breaks no rule."""
    return not any(rule.needs <= case.keys() and rule.holds(case) for rule in RULES)


def plain() -> list[dict[str, str]]:
    """Both kinds of neighbours with every noise and nothing else, so that what is false shows by itself; and the
    distribution of the loss where noise differs between units."""
    first = {name: values[0] for name, values in OPTIONS.items()}
    spines = itertools.cycle(OPTIONS["spine"])
    choices = itertools.product(OPTIONS["noise"], OPTIONS["neighbours"])
    return [
        {**first, "budget": "large", "noise": noise, "neighbours": who, "spine": next(spines)} for noise, who in choices
    ] + [{**first, "budget": "large", "noise": "pld", "spine": "only-child"}]


def pairs_of(case: dict[str, str]) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    return itertools.combinations(case.items(), 2)


def all_pairs() -> set[tuple[tuple[str, str], tuple[str, str]]]:
    """All pairs of values of two options that some combination can have."""
    found = set()
    for (one, values), (other, others) in itertools.combinations(OPTIONS.items(), 2):
        for value, second in itertools.product(values, others):
            if allowed({one: value, other: second}):
                found.add(((one, value), (other, second)))
    return found


def covering(seed: int = 1) -> list[dict[str, str]]:
    """A short list of combinations that has all pairs, by a greedy search that is the same every time."""
    left, cases, state = all_pairs(), [], seed
    while left:
        best: tuple[int, dict[str, str]] = (-1, {})
        for _ in range(12):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            case = _grown(sorted(left), left, state >> 20)
            gain = sum(pair in left for pair in pairs_of(case))
            best = max(best, (gain, case), key=lambda found: found[0])
        assert best[0] > 0, sorted(left)[:5]
        cases.append(best[1])
        left -= set(pairs_of(best[1]))
    return cases


def _grown(order: list, left: set, state: int) -> dict[str, str]:
    """A combination that begins with one missing pair; each further option takes the value with most missing pairs."""
    case = dict(order[state % len(order)])
    names = [name for name in OPTIONS if name not in case]
    names = names[state % len(names) :] + names[: state % len(names)]
    for name in names:
        fits = [value for value in OPTIONS[name] if allowed({**case, name: value})]
        start = state % len(fits)
        values = fits[start:] + fits[:start]
        case[name] = max(values, key=lambda value: sum(_known(name, value, other) in left for other in case.items()))
    return {name: case[name] for name in OPTIONS}


def _known(name: str, value: str, other: tuple[str, str]) -> tuple[tuple[str, str], tuple[str, str]]:
    order = list(OPTIONS)
    one, two = sorted(((name, value), other), key=lambda item: order.index(item[0]))
    return one, two


def name_of(case: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in case.items() if value not in ("none", "no", "one"))
