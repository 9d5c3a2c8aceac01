"""What pages say of exact counts, of noise and errors, and other facts, against the brute force."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from asking import Asked, Finding
from claims import ROOT, Claim, Exact
from exact import EVERY, invariant_rows
from making import LIMIT
from oracle import Folder, counts_of
from truths import Truths

# exact counts


def _exact(asked: Asked) -> Iterator[str]:
    """What is said to be exact has a single possible value, in the data or, if it says so, in the release alone."""
    truths, of_data = asked.truths, {count[:4] for count in asked.truths.single_in_data}
    known = {count[:4] for count in truths.single}
    claimed: Counter[tuple[str, str, bool]] = Counter()
    for one in asked.claim.exact:
        level = truths.folder.levels[0] if one.level == ROOT else one.level
        rows = [count for count in counts_of(truths.folder, (one.query,)) if count[0] == level]
        if not rows:
            yield f"{one.query}@{level} is not counted"
            continue
        units = len({count[1] for count in rows})
        claimed[one.query, level, one.fixed] += one.number or (one.units or units) * (len(rows) // units)
        if one.number or one.units:
            continue
        if not {count[:4] for count in rows} <= known:
            yield f"{one.query}@{level} has more than one possible value"
        elif not one.fixed and any(
            count[-1] @ truths.truth != count[-1] @ truths.released(asked.releases[0]) for count in rows
        ):
            yield f"{one.query}@{level} was released with another value"
    for (query, level, fixed), number in claimed.items() if asked.scope in ("release", "an item") else ():
        here = {key for key in (known - of_data if fixed else of_data) if key[0] == level and key[2] == query}
        if number > len(here):
            yield f"{query}@{level}: {len(here)} counts are exact{' in the release only' if fixed else ''}"


def _nothing_exact(asked: Asked) -> Iterator[str]:
    single = asked.truths.single
    if single:
        names = sorted({f"{query}@{level}" for level, _, query, _, _ in single})
        yield f"{len(single)} counts have a single possible value, of {', '.join(names)}"


def _exact_totals(asked: Asked) -> Iterator[str]:
    known = {count[:4] for count in asked.truths.single}
    missing = {count[0] for count in counts_of(asked.truths.folder, ("total",)) if count[:4] not in known}
    if missing:
        yield f"totals of {', '.join(sorted(missing))} are not exact"


def left_out(claims: list[Claim], truths: Truths) -> Iterator[Finding]:
    """Exact counts that a page with a list of exact counts does not name."""
    lists = [claim for claim in claims if claim.kind in ("exact", "nothing exact") and claim.scope == "release"]
    of_data = {count[:4] for count in truths.single_in_data}
    for claim in lists[:1]:
        named: dict[tuple[str, str, bool], int] = {}
        for one in claim.exact:
            level = truths.folder.levels[0] if one.level == ROOT else one.level
            rows = [count for count in counts_of(truths.folder, (one.query,)) if count[0] == level]
            units = len({count[1] for count in rows})
            number = one.number or (one.units or units) * (len(rows) // max(1, units))
            named[one.query, level, one.fixed] = named.get((one.query, level, one.fixed), 0) + number
        every = {count[:4]: count[-1] for count in (*truths.single, *truths.single_in_data)}
        named_at = {_at(one, truths) for one in claim.exact if not one.number}
        empty = np.zeros(len(truths.folder.records), bool)  # parts of a count that is exactly 0
        for (level, _, query, _), inside in every.items():
            if (query, level) in named_at and not inside @ truths.truth:
                empty |= inside
        left = [key for key, inside in every.items() if (inside & ~empty).any()]
        exact = Counter((query, level, key not in of_data) for key in left for level, _, query, _ in [key])
        missing = [f"{name[0]}@{name[1]}" for name, number in exact.items() if named.get(name, 0) < number]
        if missing:
            yield Finding(claim, f"not all that is exact: {', '.join(sorted(missing))}")


def _at(one: Exact, truths: Truths) -> tuple[str, str]:
    return one.query, truths.folder.levels[0] if one.level == ROOT else one.level


# noise and errors


def _noise(asked: Asked) -> Iterator[str]:
    truth = asked.truths.deviation(asked.scope, asked.releases[0])
    if truth is not None and abs(asked.value - truth) > max(0.51 * asked.digits, 1e-6 * truth):
        yield f"the standard deviation is {truth:.6g}"


def _noise_of(asked: Asked) -> Iterator[str]:
    """The noise of the counts of groups of a level: the largest of those that are not exact."""
    known = {count[:4] for count in asked.truths.single}
    counts = [count for count in counts_of(asked.truths.folder, EVERY) if count[0] == asked.scope]
    noisy = {count[2] for count in counts if count[:4] not in known}
    worst = max(asked.truths.deviation(f"{query}@{asked.scope}", asked.releases[0]) or 0.0 for query in noisy)
    if asked.value < worst * (1 - 1e-6) or asked.value > worst + asked.digits:
        yield f"the largest standard deviation is {worst:.5g}"


def _usable(asked: Asked) -> Iterator[str]:
    truth = asked.truths.deviation(asked.scope, asked.releases[0])
    if truth is not None and asked.value != math.ceil(10 * truth - 1e-9):
        yield f"ten standard deviations are {10 * truth:.5g}"


def _expected(asked: Asked) -> Iterator[str]:
    query, level = asked.scope.split("@")
    truth = asked.truths.best(asked.releases[0], enforced=False)[level, query]
    if abs(asked.value - truth) > max(0.51 * asked.digits, 1e-5 * truth, 1e-5):
        yield f"the best linear estimates of published units have {truth:.6g}"


def _typical(asked: Asked, *, times: float = 1.0) -> Iterator[str]:
    truth = asked.truths.best(asked.releases[0], enforced=True)[asked.scope, "total"] * times
    if asked.value + max(0.51 * asked.digits, 1e-5 * truth, 1e-4) < truth:
        yield f"too small: no linear estimate is better than {truth:.5g}"
    if asked.truths.best(asked.releases[0], enforced=False)[asked.scope, "total"] < 1e-4 < asked.value:
        yield "the total is exact in every published unit"


def _margin(asked: Asked) -> Iterator[str]:
    yield from _typical(asked, times=1.6448)


# other facts


def _only_children(asked: Asked) -> Iterator[str]:
    folder = asked.truths.folder
    units = [unit for level in range(len(folder.levels)) for unit in folder.units(level, measured=True)]
    below = {unit: [other for other in units if other[:-1] == unit] for unit in units}
    copied = {children[0] for children in below.values() if len(children) == 1}
    less = [unit for unit in units if len(below[unit]) == 1 and unit not in copied]
    truth = len(copied) if asked.claim.kind == "units that copy" else len(less)
    if asked.value != truth:
        yield f"there are {truth}"


def _left(asked: Asked) -> Iterator[str]:
    truth = LIMIT - asked.truths.pages.json["ledger"]["epsilon"]
    if asked.value > truth + 1e-9:
        yield f"rounded up: {truth:.9g} is left"


def _rows_of_a_person(asked: Asked) -> Iterator[str]:
    known = {"none": "unknown"}.get(person := asked.truths.pages.case["person"], person)
    if asked.scope != known:
        yield f"what is known is {known}"


def _rules(asked: Asked) -> Iterator[str]:
    """Rules besides those that publish a count as it is: those of the strategy, and zeros of the codebook."""
    folder = asked.truths.folder
    rules = {json.dumps(rule) for kind in ("zero", "bound", "facilities") for rule in folder.constraints(kind)}
    rules |= {json.dumps({"zero": zero}) for zero in folder.zeros}
    if asked.value != len(rules):
        yield f"there are {len(rules)}"


def _nothing_spent(asked: Asked) -> Iterator[str]:
    if asked.truths.pages.case["key"] != "seed":
        yield "something has been spent"


def compared_with(folder: Folder) -> bool:
    """Whether the data are compared with any rule."""
    rules = any(folder.constraints(kind) for kind in ("zero", "bound", "facilities"))
    return bool(folder.zeros) or (folder.checked and rules)


def _conditions(asked: Asked) -> Iterator[str]:
    """Neighbours agree on what is exact, and satisfy what the data are compared with."""
    folder = asked.truths.folder
    true = {"agree"} if folder.replace else set()
    true |= {"satisfy"} if compared_with(folder) else set()
    if asked.claim.words != true:
        yield f"it holds for neighbours that {' and '.join(sorted(true)) or 'differ in any record'}"


def _holds_for(asked: Asked) -> Iterator[str]:
    full = asked.truths.pages.json["certificate 1"]["declared"]["guarantee"]["holds_for"]
    if asked.scope != full and not asked.claim.source.page.endswith("2.json"):
        yield f"the certificate says in full: {full}"


def _compared(asked: Asked) -> Iterator[str]:
    """The data are always compared with zeros of the codebook, and with constraints if they are checked."""
    folder = asked.truths.folder
    text = asked.claim.source.text
    compared = folder.checked or (text.startswith("nobody has") and bool(folder.zeros)) or _by_invariants(text, folder)
    if compared != (asked.claim.kind == "compared"):
        yield "the data were compared with it" if compared else "the data were not compared with it"


def _by_invariants(rule: str, folder: Folder) -> bool:
    """Whether a rule is about counts that invariants publish: their answers are compared with it in any case."""
    about = re.match(r"(?:persons by )?(\w+) in (?:every )?(\w+)", rule)
    if about is None or about[2] not in folder.levels:
        return False
    fixed = invariant_rows(folder).astype(float)
    rows = np.array([c[-1] for c in counts_of(folder, (about[1],)) if c[0] == about[2]], dtype=float)
    return bool(np.linalg.matrix_rank(np.vstack([fixed, rows])) == np.linalg.matrix_rank(fixed))


def _unread(_asked: Asked) -> Iterator[str]:
    yield "a statement that reading.py does not know"


CHECKS: dict[str, Callable[[Asked], Iterator[str]]] = {
    "compared": _compared,
    "conditions": _conditions,
    "exact totals": _exact_totals,
    "exact": _exact,
    "expected": _expected,
    "holds for": _holds_for,
    "left": _left,
    "margin": _margin,
    "noise of": _noise_of,
    "noise": _noise,
    "not compared": _compared,
    "nothing exact": _nothing_exact,
    "nothing spent": _nothing_spent,
    "rows of a person": _rows_of_a_person,
    "rules": _rules,
    "typical error": _typical,
    "units that copy": _only_children,
    "units with less noise": _only_children,
    "unread": _unread,
    "usable": _usable,
}
