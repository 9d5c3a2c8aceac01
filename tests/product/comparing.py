"""Every claim of a combination's pages against the brute force: what is false, what is too loose, what nobody can read."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pandas as pd
from exact import Facts, best_errors, invariant_rows, variance
from making import Pages
from oracle import Folder, Measured, Pair, Truth, counts_of, from_rho
from reading import Claim, claims_of
from statements import Statement, statements

GRID = 1e-5  # the relative error of the distribution of the loss
LIMIT = 40.0  # of the ledger
EVERY = ("total", "age", "home", "detailed")
UNCONDITIONED = "true only of possibilities that agree on what is exact, and the sentence does not say so"


@dataclass(frozen=True)
class Finding:
    """A claim that is not true, and what is."""

    claim: Claim
    truth: str

    def __str__(self) -> str:
        return f"{self.claim}\n      {self.truth}"


def findings(pages: Pages) -> list[Finding]:
    """All claims of a combination that do not hold."""
    truths = Truths(pages)
    found = []
    for page, text in pages.page.items():
        made = list(claims_of(statements(page, text)))
        found += [Finding(claim, problem) for claim in made for problem in truths.problems(claim)]
        found += truths.left_out(page, made)
    for page, record in pages.json.items():
        found += [
            Finding(claim, problem) for claim in json_claims(page, record, pages) for problem in truths.problems(claim)
        ]
    return found


def json_claims(page: str, record: dict, pages: Pages) -> Iterator[Claim]:
    """The figures of a JSON record as claims; what holds for neighbours stands beside them in the record."""
    account = record.get("declared", record).get("guarantee", record)
    scopes = [
        ("epsilon", "epsilon", "record"),
        ("rho", "rho", "record"),
        ("pld_epsilon", "epsilon", "record"),
        ("implied_epsilon", "implied", "record"),
    ]
    scopes.append(("zcdp_epsilon", "epsilon from rho", "record"))
    if page == "ledger":
        account = (
            {"epsilon": record["epsilon"], "pld_epsilon": (record["groups"] or [{}])[0].get("pld_epsilon")}
            if record["groups"]
            else {}
        )
    for key, kind, scope in scopes:
        if account.get(key) is not None:
            yield _of_json(
                page, kind, scope, account[key], f"{key} {'at delta' if page == 'ledger' or 'pld' in key else ''}"
            )
    for part, scope in (("per_attribute", "attribute"), ("within_level", "place")):
        for name, value in (account.get(part) or {}).items():
            yield (
                _of_json(page, "epsilon", f"{scope} {name}", value, part)
                if name != "*"
                else _of_json(page, "other attribute", "record", value, part)
            )
    if page.startswith("certificate"):
        for row in record["declared"]["budget"]["queries"]:
            yield _of_json(page, "noise", f"{row['query']}@{row['level']}", row["sd"], "budget")
        for row in record["declared"]["expected_error"]:
            yield _of_json(page, "typical error", row["level"], row["sd"], "expected_error")
        for row in record["declared"]["budget"].get("exact", ()):
            where = f"{row['query']}@{row['level']}"
            yield Claim("exact", 0.0, where, Statement(page, f"exact {where}"), names=((row["query"], row["level"]),))
    for row in record.get("accuracy", ()):
        yield _of_json(page, "expected", f"{row['query']}@{row['level']}", row["sd"], "accuracy")


def _of_json(page: str, kind: str, scope: str, value: float, key: str) -> Claim:
    return Claim(
        kind,
        value,
        scope,
        Statement(f"{page}.json", f"{key} {scope} {value}"),
        condition=frozenset({"agree", "no seed"}),
    )


class Truths:
    """The brute force of a combination, computed when asked for and kept."""

    def __init__(self, pages: Pages):
        self.pages = pages
        self.folders = [Folder.read(folder) for folder in pages.folders]
        self.measured = [Measured.of(folder) for folder in self.folders]
        self.kept: dict[tuple, object] = {}

    @property
    def folder(self) -> Folder:
        return self.folders[0]

    @cached_property
    def truth(self) -> np.ndarray:
        return np.array([self.pages.truth.get((path[-1], *cell), 0) for path, cell in self.folder.records])

    @cached_property
    def single(self) -> list:
        """Counts with one possible value in the release."""
        return Facts.of(self.folder, self.truth, enforced=True).single

    @cached_property
    def single_in_data(self) -> list:
        """Counts that are the same in all data that neighbours may be: what is exact, and what checked constraints fix."""
        return Facts.of(self.folder, self.truth, enforced=False).single

    @cached_property
    def shared(self) -> np.ndarray:
        return np.vstack([invariant_rows(self.folder), *(count[-1] for count in self.single_in_data)])

    def of(self, releases: tuple[int, ...], kind: str = "strict") -> Truth:
        """The truth about releases; `any` is about all pairs of possible records, `loose` also about impossible ones."""
        nothing = np.zeros((0, len(self.folder.records)), bool)
        return self._once(
            ("truth", releases, kind),
            lambda: Truth(
                [self.measured[i] for i in releases],
                self.shared if kind == "strict" else nothing,
                strict=kind != "loose",
            ),
        )

    def pairs(self, releases: tuple[int, ...], scope: str, kind: str = "strict") -> set[Pair]:
        truth = self.of(releases, kind)
        name = scope.partition(" ")[2]

        def made() -> set[Pair]:
            if scope.startswith("attribute"):
                names = list(self.folder.labels) if scope == "attributes" else [name]
                return set().union(*(truth.attribute(each) for each in names))
            if scope.startswith("place"):
                return truth.place(name)
            if scope == "records":
                return truth.between(lambda one, other: True)
            return truth.alone() if scope == "in or out" else truth.neighbours()

        return self._once(("pairs", releases, scope, kind), made)

    def _once(self, key: tuple, made):
        if key not in self.kept:
            self.kept[key] = made()
        return self.kept[key]

    def releases(self, claim: Claim) -> tuple[int, ...]:
        number = re.search(r"\d$", claim.source.page.removesuffix(".json"))
        if claim.scope == "one":
            number = re.search(r"(?<=release)\d", claim.source.text)
        if number:
            return (int(number[0]) - 1,)
        if claim.source.page.startswith(("account", "ledger")):
            return tuple(range(len(self.folders)))
        return (0,)

    def problems(self, claim: Claim) -> Iterator[str]:
        check = getattr(self, "_check_delta" if claim.kind == "delta" else "_" + claim.kind.replace(" ", "_"))
        yield from check(claim, self.releases(claim))

    # losses

    def _delta(self, claim: Claim) -> float:
        """The delta that a claim is about: pure noise has one only where an epsilon is said to hold at it."""
        if self.folder.pure and "at delta" not in claim.source.text:
            return 0.0
        return float(self.pages.case["delta"]) if self.folder.pure else self.folder.delta

    def _exposed(self, claim: Claim, releases: tuple[int, ...]) -> str | None:
        """Why somebody can be certain of what a claim bounds, if the claim has no condition."""
        scope = claim.scope
        if scope == "records" or scope.startswith(("attribute", "place")):
            if (
                self.pages.case["key"] == "seed"
                and "no seed" not in claim.condition
                and not claim.source.page.startswith(("plan", "strategy"))
            ):
                return "whoever knows the seed is certain"
            if "agree" not in claim.condition and len(self.pairs(releases, scope)) < len(
                self.pairs(releases, scope, "any")
            ):
                return f"whoever knows the others is certain where an exact count differs; {UNCONDITIONED}"
            if (
                scope == "records"
                and self.pages.case["filter"] == "where"
                and self.folder.replace
                and "filter" not in claim.source.text
            ):
                return (
                    "whether somebody passes the filter is certain, because the number of people who pass it is exact"
                )
        return None

    def _epsilon(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        if (
            claim.source.page.startswith("strategy") or claim.source.section.startswith("Per attribute")
        ) and " " in claim.scope:
            yield from self._of_strategy(claim, releases)
            return
        exposed = None if claim.scope in ("record", "all", "one") else self._exposed(claim, releases)
        if exposed:
            yield exposed
            return
        pairs, delta = self.pairs(releases, claim.scope), self._delta(claim)
        truth = self._once(("epsilon", releases, claim.scope, delta), lambda: self.of(releases).epsilon(pairs, delta))
        if claim.value < truth * (1 - GRID) - 1e-12:
            yield f"too small: the loss is {truth:.8g}"
        loosest = self._loosest(releases, claim.scope)
        if claim.value > loosest * 1.05 + claim.digits:
            yield f"too loose: the loss is at most {loosest:.6g}, even if nothing were exact"

    def _of_strategy(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        """A strategy alone knows no spine: figures hold for spines without only children, and are compared where there are none."""
        if self.folder.strategy.get("only_child") or self.pages.case["spine"] == "optimised":
            return
        truth = self.of(releases).epsilon(self.pairs(releases, claim.scope), self._delta(claim))
        if claim.value < truth * (1 - GRID):
            yield f"too small: the loss is {truth:.8g}"

    def _loosest(self, releases: tuple[int, ...], scope: str) -> float:
        """The loss if nothing were exact and no record impossible, by the loosest way to compute it."""

        def made() -> float:
            truth = self.of(releases, "loose")
            loss = truth.loss(self.pairs(releases, scope, "loose"))
            return (
                loss
                if self.folder.pure
                else from_rho(max(loss, self._nominal(releases)), self.folder.delta)
                if " " not in scope
                else from_rho(loss, self.folder.delta)
            )

        return self._once(("loosest", releases, scope), made)

    def _nominal(self, releases: tuple[int, ...]) -> float:
        plans = [self.folders[i].strategy for i in releases]
        return float(sum(Fraction(plan["rho"] if "rho" in plan else plan["epsilon"]) for plan in plans))

    def _rho(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        nominal = self._nominal(releases)
        if claim.value < nominal * (1 - 1e-9):
            yield f"rounded down: rho is {nominal:.8g}"
        if claim.value > nominal * 1.05 + claim.digits:
            yield f"too loose: rho is {nominal:.8g}"

    def _epsilon_from_rho(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        truth = self._once(("from rho", releases), lambda: from_rho(self._nominal(releases), self.folder.delta))
        if claim.value < truth * (1 - 1e-9):
            yield f"rounded down: rho {self._nominal(releases):.6g} gives {truth:.8g}"
        if claim.value > truth * 1.05 + claim.digits:
            yield f"too loose: rho gives {truth:.8g}"

    def _implied(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        truth = math.sqrt(2 * self._nominal(releases))
        if not truth * (1 - 1e-9) - claim.digits <= claim.value <= truth * (1 + 1e-9) + claim.digits:
            yield f"the square root of 2 rho is {truth:.6g}"

    def _delta_of(self, claim: Claim) -> float | None:
        if claim.chance is not None:
            return claim.chance
        found = re.search(
            r"At most: but for a chance of delta = ([\d.e-]+)\.?(?= |$)", " ".join(self._texts(claim.source.page))
        )
        return float(found[1].rstrip(".")) if found else None

    def _texts(self, page: str) -> list[str]:
        return self._once(
            ("texts", page), lambda: [found.text for found in statements(page, self.pages.page.get(page, ""))]
        )

    def _sure(self, claim: Claim, releases: tuple[int, ...], *, factor: bool = False) -> Iterator[str]:
        scope = "record" if claim.scope == "record, listed" else claim.scope
        exposed = self._exposed(claim, releases)
        if exposed:
            yield exposed
            return
        epsilon = math.log(claim.value) if factor else math.log(claim.value / max(1 - claim.value, 1e-300))
        pairs, chance = self.pairs(releases, scope), self._delta_of(claim)
        if not self.folder.pure and chance is None:
            yield "no bound holds without a chance that it fails"
            return
        truth = self.of(releases).chance(pairs, epsilon + 1e-12, either=factor)
        if truth > (chance or 0.0) * 1.001:
            how = (
                f"epsilon is {self.of(releases).loss(pairs):.6g}"
                if self.folder.pure
                else f"the chance is {truth:.3g}, {truth / (chance or 1):.3g} times as large"
            )
            yield f"more: {how}"

    def _factor(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        yield from self._sure(claim, releases, factor=True)

    def _average(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        exposed = self._exposed(claim, releases)
        if exposed:
            yield exposed
            return
        truth = self.of(releases).average(self.pairs(releases, claim.scope))
        if claim.value + claim.digits < truth:
            yield f"too small: on average {truth:.4f} for some people"
        if claim.value > truth * 1.05 + claim.digits:
            yield f"too large: on average at most {truth:.4f}"

    def _twice(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        delta = 0.0 if self.folder.pure else self.folder.delta
        one, two = (self.of(releases).epsilon(self.pairs(releases, scope), delta) for scope in ("in or out", "records"))
        if two > 2 * one * (1 + GRID):
            yield f"more than twice: {two:.5g} instead of {one:.5g}"

    # exact counts

    def _exact(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        for query, level in claim.names:
            level = self.folder.levels[0] if level == "@root" else level
            rows = [count for count in counts_of(self.folder, (query,)) if count[0] == level]
            known = {count[:4] for count in self.single}
            if not rows or not {count[:4] for count in rows} <= known:
                yield f"{query}@{level} has more than one possible value"
            elif any(count[-1] @ self.truth != count[-1] @ self._released(releases[0]) for count in rows):
                yield f"{query}@{level} was released with another value"

    def _released(self, number: int) -> np.ndarray:
        def made() -> np.ndarray:
            table = pd.read_parquet(self.pages.folders[number] / "release.parquet")
            names = [self.folder.levels[-1], *self.folder.labels]
            counts = {tuple(map(str, row[:-1])): row[-1] for row in table[[*names, "count"]].itertuples(index=False)}
            return np.array([counts.get((path[-1], *cell), 0) for path, cell in self.folder.records])

        return self._once(("released", number), made)

    def _nothing_exact(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        if self.single:
            names = sorted({f"{query}@{level}" for level, _, query, _, _ in self.single})
            yield f"{len(self.single)} counts have a single possible value, of {', '.join(names)}"

    def _exact_totals(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        missing = {level for level, _, query, _, _ in counts_of(self.folder, ("total",))} - {
            c[0] for c in self.single if c[2] == "total"
        }
        if missing:
            yield f"totals of {', '.join(sorted(missing))} are not exact"

    def left_out(self, page: str, claims: list[Claim]) -> Iterator[Finding]:
        """Exact counts that a page with a list of exact counts does not name, zeros of impossible or empty groups apart."""
        lists = [claim for claim in claims if claim.kind in ("exact", "nothing exact") and claim.scope == "release"]
        for claim in lists[:1]:
            named = {
                (query, self.folder.levels[0] if level == "@root" else level)
                for other in lists
                for query, level in other.names
            }
            empty = self.folder.impossible(enforced=True)
            for level, _, query, _, inside in self.single_in_data:
                if (query, level) in named and not inside @ self.truth:
                    empty = empty | inside
            missing = [c for c in self.single_in_data if (c[2], c[0]) not in named and (c[-1] & ~empty).any()]
            if missing:
                names = sorted(
                    {f"{query}@{level} {unit[-1]} {'*'.join(row)}".strip() for level, unit, query, row, _ in missing}
                )
                yield Finding(claim, f"not in the list, but exact: {', '.join(names)}")

    # noise and errors

    def _noise(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        truth = self._deviation(claim.scope, releases[0])
        if truth is not None and abs(claim.value - truth) > max(0.51 * claim.digits, 1e-6 * truth):
            yield f"the standard deviation is {truth:.6g}"

    def _deviation(self, where: str, number: int) -> float | None:
        """The noise of a query in a unit that has no only child: the largest of its level."""
        measured = self.measured[number]
        query, level = where.split("@")
        found = [p for p, place in zip(measured.parameter, measured.where, strict=True) if place == (level, query)]
        if self.folder.strategy.get("only_child"):
            plan = self.folders[number].strategy
            share = Fraction(plan["levels"][level]) * Fraction(plan["queries"].get(level, plan["queries"])[query])
            loss = share * Fraction(plan["rho"] if "rho" in plan else plan["epsilon"])
            found = [
                (loss / 2 if self.folder.replace else loss)
                if self.folder.pure
                else (1 / loss if self.folder.replace else 1 / (2 * loss))
            ]
        pick = min if self.folder.pure else max
        return math.sqrt(variance(float(pick(found)), pure=self.folder.pure)) if found else None

    def _noise_of(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        known = {count[:4] for count in self.single}
        noisy = {
            count[2] for count in counts_of(self.folder, EVERY) if count[0] == claim.scope and count[:4] not in known
        }
        worst = max((self._deviation(f"{query}@{claim.scope}", releases[0]) or 0.0) for query in noisy)
        if claim.value < worst * (1 - 1e-6) or claim.value > worst + claim.digits:
            yield f"the largest standard deviation is {worst:.5g}"

    def _usable(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        truth = self._deviation(claim.scope, releases[0])
        if truth is not None and claim.value != math.ceil(10 * truth - 1e-9):
            yield f"ten standard deviations are {10 * truth:.5g}"

    def _best(self, number: int, *, enforced: bool) -> dict[tuple[str, str], float]:
        """The errors of the best linear estimates, which know what is impossible in the data or, if `enforced`, in the release."""

        def made() -> dict[tuple[str, str], float]:
            best = best_errors(self.measured[number], enforced=enforced)
            return {where: float(np.sqrt(np.mean(np.square(values)))) for where, values in best.items()}

        return self._once(("best", number, enforced), made)

    def _expected(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        query, level = claim.scope.split("@")
        truth = self._best(releases[0], enforced=False)[level, query]
        if abs(claim.value - truth) > max(0.51 * claim.digits, 1e-5 * truth, 1e-5):
            yield f"the best linear estimates of published units have {truth:.6g}"

    def _typical_error(self, claim: Claim, releases: tuple[int, ...], *, times: float = 1.0) -> Iterator[str]:
        truth = self._best(releases[0], enforced=True)[claim.scope, "total"] * times
        if claim.value + max(0.51 * claim.digits, 1e-5 * truth, 1e-4) < truth:
            yield f"too small: no linear estimate is better than {truth:.5g}"
        if self._best(releases[0], enforced=False)[claim.scope, "total"] < 1e-4 < claim.value:
            yield "the total is exact in every published unit"

    def _margin(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        yield from self._typical_error(claim, releases, times=1.6448)

    # other facts

    def _units_with_less_noise(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        units = [unit for level in range(len(self.folder.levels)) for unit in self.folder.units(level, measured=True)]
        below = {unit: [other for other in units if other[:-1] == unit] for unit in units}
        copied = {child for children in below.values() if len(children) == 1 for child in children}
        less = [unit for unit in units if len(below[unit]) == 1 and unit not in copied]
        truth = len(copied) if claim.kind == "units that copy" else len(less)
        if claim.value != truth:
            yield f"there are {truth}"

    _units_that_copy = _units_with_less_noise

    def _left(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        truth = LIMIT - self.pages.json["ledger"]["epsilon"]
        if claim.value > truth + 1e-9:
            yield f"rounded up: {truth:.6g} is left"

    def _counted_once(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        if not re.search(r"provided|if each|as long as|condition", claim.source.text):
            yield "nobody checked it: it is a condition"

    def _nothing_spent(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        if self.pages.case["key"] != "seed":
            yield "something has been spent"

    def _check_delta(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        if claim.value != self.folder.delta:
            yield f"delta is {self.folder.delta:g}"

    def _unread(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        yield "a statement that reading.py does not know"

    def _group(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        yield from ()

    def _other_attribute(self, claim: Claim, releases: tuple[int, ...]) -> Iterator[str]:
        yield from ()
