"""Statements as typed claims: what is claimed, of what, and under which condition.

To follow a page whose wording changes, add or edit an entry of SENTENCES, ROWS or KNOWN. A sentence with one of the
WORDS that no entry matches makes the test fail, so that no claim goes unread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from statements import Statement

NUMBER = r"(-?[\d,]*\.?\d+(?:e-?\d+)?(?:/\d+)?)"
SURE = rf"(?:become|becomes) at most {NUMBER}% sure"
CHANCE = r"(?:,? but for a chance of (?P<chance>[^.,;]+))?"
WORDS = re.compile(
    r"epsilon|\brho\b|\bdelta\b|guarant|\bsure\b|chance|\bexact|\bnoise\b|protect|privacy|\blikely\b|\bodds\b"
    r"|counted once|not for publication|is left",
    re.I,
)
# a sentence with such words restricts its claim to what neighbours may differ in
AGREE = re.compile(
    r"agree on|neighbours|is not exact|apart from what is exact|not listed as exact|same exact counts|still hold",
    re.I,
)
SEEDLESS = re.compile(r"without a seed|no guarantee|are no guarantee|if it had no seed", re.I)


@dataclass(frozen=True)
class Claim:
    """One figure or one fact: `kind` of claim, `scope` it is about, `chance` with which it may fail."""

    kind: str
    value: float
    scope: str
    source: Statement
    chance: float | None = None
    digits: float = 0.0  # one in the last printed digit
    condition: frozenset[str] = frozenset()
    names: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"[{self.kind} of {self.scope}: {self.value:g}] {self.source}"


def number(text: str) -> tuple[float, float]:
    """A printed number, and one in its last digit."""
    plain = text.replace(",", "")
    if "/" in plain:
        return float(Fraction(plain)), 0.0
    mantissa, _, power = plain.lower().partition("e")
    places = len(mantissa.partition(".")[2])
    return float(plain), 10.0 ** (int(power or 0) - places)


def chance_of(text: str | None) -> float | None:
    if text is None:
        return None
    words = {"million": 1e6, "billion": 1e9, "trillion": 1e12, "thousand": 1e3}
    one_in = re.fullmatch(r"1 in ([\d,.]+)(?: (\w+))?", text.strip())
    if one_in:
        return 1 / (float(one_in[1].replace(",", "")) * words.get(one_in[2] or "", 1.0))
    found = re.search(NUMBER, text)
    return number(found[1])[0] if found else None


Maker = Callable[[re.Match[str], Statement], list[Claim]]


def _figure(kind: str, scope: str, group: int = 1) -> Maker:
    def made(match: re.Match[str], source: Statement) -> list[Claim]:
        value, digits = number(match[group].rstrip(".,"))
        chance = match.groupdict().get("chance")
        return [
            Claim(
                kind,
                value / (100 if kind in ("sure", "average") else 1),
                scope,
                source,
                chance_of(chance),
                digits / (100 if kind in ("sure", "average") else 1),
            )
        ]

    return made


def _fact(kind: str, scope: str = "") -> Maker:
    return lambda _, source: [Claim(kind, 0.0, scope, source)]


def _several(*makers: Maker) -> Maker:
    return lambda match, source: [claim for make in makers for claim in make(match, source)]


def _exact(match: re.Match[str], source: Statement) -> list[Claim]:
    """What a list of exact counts names, as pairs of query and level; the first level of the page is `@root`."""
    names: list[tuple[str, str]] = []
    for part in match[1].rstrip(".").split(";"):
        part = part.strip()
        if part == "the number of people in all":
            names.append(("total", "@root"))
            continue
        found = re.fullmatch(r"(?:counts by )?(?P<query>.+?) (?:of|is exact for) (?P<levels>.+)", part)
        if found is None:
            return [Claim("unread", 0.0, part, source)]
        for level in re.split(r",| and ", found["levels"]):
            names.append((found["query"].strip(), re.sub(r"^(every|the) ", "", level.strip())))
    return [Claim("exact", 0.0, "release", source, names=tuple(names))]


def _list(kind: str, pattern: str) -> Maker:
    def made(match: re.Match[str], source: Statement) -> list[Claim]:
        found = []
        for name, figure in re.findall(pattern, match[1]):
            value, digits = number(figure)
            found.append(
                Claim(kind, value, ("place " if "within" in pattern else "attribute ") + name, source, digits=digits)
            )
        return found

    return made


def _conditions(_: re.Match[str], source: Statement) -> list[Claim]:
    """For which neighbours a statement says that something holds."""
    words = {"agree": r"agree on all invariants", "satisfy": r"satisfy all listed constraints"}
    names = tuple((name, "") for name, pattern in words.items() if re.search(pattern, source.text))
    return [Claim("conditions", 0.0, "neighbours", source, names=names)]


def _root(_: re.Match[str], source: Statement) -> list[Claim]:
    return [Claim("exact", 0.0, "root", source, names=(("total", "@root"),))]


def _noise(match: re.Match[str], source: Statement) -> list[Claim]:
    value, digits = number(match[3])
    return [Claim("noise", value, f"{match[1]}@{match[2]}", source, digits=digits)]


# sentences, searched for in this order; the first that is found is the only one
SENTENCES: list[tuple[str, Maker]] = [
    (rf"at most {NUMBER} times more or less likely{CHANCE}", _figure("factor", "record")),
    (
        rf"two possibilities about this person equally likely, can {SURE} of one of them{CHANCE}",
        _figure("sure", "record, listed"),
    ),
    (
        rf"two possibilities about you equally likely, can {SURE} of one of them from all that is published"
        rf" here{CHANCE}",
        _figure("sure", "records"),
    ),
    (rf"equally likely that this person is in the data or not, can {SURE} of it{CHANCE}", _figure("sure", "in or out")),
    (rf"gives two possibilities equal odds can {SURE} of one", _figure("sure", "records")),
    (rf"On average over the noise, .* becomes {NUMBER}% sure", _figure("average", "attributes")),
    (r"epsilon is then up to twice as large", _fact("twice", "records")),
    (r"for a family of four, epsilon is four times as large( or more)?", _fact("group")),
    (rf"pure differential privacy with epsilon {NUMBER}", _figure("epsilon", "record")),
    (rf"{NUMBER}-differential privacy \(pure\)", _figure("epsilon", "record")),
    (rf"(?i)zero-concentrated differential privacy with rho (?:= )?{NUMBER}", _figure("rho", "record")),
    (
        rf"\({NUMBER}, {NUMBER}\)-differential privacy by privacy loss distribution \(rho = {NUMBER}",
        _several(_figure("epsilon", "record"), _figure("delta", "record", 2), _figure("rho", "record", 3)),
    ),
    (rf"^{NUMBER} epsilon(?: at delta {NUMBER})?$", _figure("epsilon", "record")),
    (r"(?i)every count has noise", _fact("nothing exact", "release")),
    (r"(?:Published without noise, and not protected|Exact, so outside the guarantee): (.+)", _exact),
    (r"Totals have no error|^Totals of all places are exact", _fact("exact totals")),
    (r"^The (number of people in all) is the same for neighbours and is kept exactly", _root),
    (rf"^A (?:count of )?(.+) at level (\w+) would get noise with a standard deviation of {NUMBER}", _noise),
    (
        rf"^By zCDP, it would take rho {NUMBER}: variances are {NUMBER}% smaller",
        _several(_figure("rho by zcdp", "record"), _figure("smaller", "record", 2)),
    ),
    (
        rf"in every (\w+), its standard deviation is up to {NUMBER} persons",
        lambda m, s: [Claim("noise of", number(m[2])[0], m[1], s, digits=number(m[2])[1])],
    ),
    (r"^Each person is counted once", _fact("counted once")),
    (
        rf"So in {NUMBER} units the noise is smaller than shown, and {NUMBER} units copy their parent",
        _several(_figure("units with less noise", "release"), _figure("units that copy", "release", 2)),
    ),
    (rf"costs? a person (?:in .+ )?at most epsilon {NUMBER}(?: at delta {NUMBER})?", _figure("epsilon", "all")),
    (
        rf"The limit is epsilon {NUMBER}(?: at delta {NUMBER})?, so epsilon {NUMBER} is left",
        _figure("left", "ledger", 3),
    ),
    (rf"^from privacy loss distributions: epsilon {NUMBER} at delta {NUMBER}", _figure("epsilon", "all")),
    (
        rf"= {NUMBER}: epsilon {NUMBER} at delta {NUMBER} \(Theorem 3\)",
        _several(_figure("rho", "all"), _figure("epsilon", "all", 2)),
    ),
    (
        rf"^rho {NUMBER}: epsilon {NUMBER} at delta {NUMBER} \(Theorem 3\)",
        _several(_figure("rho", "all"), _figure("epsilon", "all", 2)),
    ),
    (rf"^epsilon (?:.+ = )?{NUMBER} \(pure\)", _figure("epsilon", "all")),
    (
        rf"Rho {NUMBER} guarantees epsilon {NUMBER} at delta {NUMBER}",
        _several(_figure("rho", "all"), _figure("epsilon from rho", "all", 2)),
    ),
    (
        rf"Theorem 3: epsilon {NUMBER}, delta {NUMBER}, rho {NUMBER}: epsilon is the smallest",
        _several(_figure("epsilon from rho", "all"), _figure("rho", "all", 3)),
    ),
    (rf"The noise is geometric and epsilon {NUMBER} pure", _figure("epsilon", "all")),
    (rf"Theorem 2: epsilon {NUMBER}, delta 0, rho {NUMBER}: rho is the one", _figure("epsilon", "all")),
    (rf"The guarantee is epsilon {NUMBER} at delta", _figure("epsilon", "all")),
    (rf"^line \d+: release\d, epsilon {NUMBER}", _figure("epsilon", "one")),
    (rf"^line \d+: release\d, rho {NUMBER}", _figure("rho", "one")),
    (rf"release\d: epsilon {NUMBER}", _figure("epsilon", "one")),
    (rf"release\d: rho {NUMBER}", _figure("rho", "one")),
    (rf"^protecting .*; epsilon {NUMBER}(?:, rho {NUMBER})?$", _figure("epsilon", "record")),
    (rf"^protecting .*; rho {NUMBER}$", _figure("rho", "record")),
    (rf"^Protected.*: epsilon {NUMBER}", _figure("epsilon", "record")),
    (r"the data are not compared with it", _fact("not compared", "constraint")),
    (r"the data are checked against it", _fact("compared", "constraint")),
    (r"^Neighbours \(.*", _conditions),
    (r"^It covers two datasets .*", _conditions),
    (r"^The guarantee, for .*", _conditions),
    (r"^This is differential privacy with this epsilon and delta.*", _conditions),
    (r"^Nothing has been spent", _fact("nothing spent")),
]

# rows of tables: a pattern of the first cell, and which claim the cells after it make
ROWS: list[tuple[str, str, str]] = [
    (r"epsilon", "epsilon", "record"),
    (r"rho", "rho", "record"),
    (r"epsilon from rho|zcdp epsilon", "epsilon from rho", "record"),
    (r"epsilon, more tightly|pld epsilon", "epsilon", "record"),
    (r"implied epsilon", "implied", "record"),
    (r"epsilon, any other attribute", "other attribute", "record"),
    (r"epsilon, within (?P<name>.+)", "epsilon", "place {name}"),
    (r"epsilon, (?P<name>.+)", "epsilon", "attribute {name}"),
]

# sentences about privacy that make no claim with a figure of their own, or repeat a definition
KNOWN: list[str] = [
    r"not covered by the guarantee$",
    r"^(stamped|Stamped|holds \| stamps|Would be stamped)",
    r"seeded: not for publication",
    r"^Random noise was added",
    r"^The counts are protected by differential privacy: random noise",
    r"^(These|Where) .*errors",
    r"^(How large|Where|Whether) [^:.]*[:?]?$",
    r"^Counts of (groups|few people)",
    r"^Released counts are often closer",
    r"^Each number is the standard deviation",
    r"^The smaller epsilon, the stronger",
    r"^That (a count is right|nothing can be learned)",
    r"^Protection against several releases",
    r"^Changing an attribute or a place",
    r"^The noise is (discrete Gaussian|two-sided geometric), drawn exactly",
    r"^The protection is computational",
    r"truth: an invariant, kept exactly",
    r"^(outside the guarantee|for neighbours that satisfy): ",
    r"is exact for every \w+$",
    r"^holds \| invariants",
    r"^Measured on an optimised spine",
    r"^A unit with exactly one child takes over",
    r"^Exact (shares|totals) ",
    r"^Nothing, because this release is seeded",
    r"^Without a seed, it would be this",
    r"^A release above is stamped",
    r"^The list of places was made from the data",
    r"^The number of people who pass the filter is exact",
    r"^How many people pass",
    r"^(Certificate of protection|Report on protected counts|What is (exact|promised))",
    r"^For specialists: the privacy loss",
    r"^The budget, and the noise",
    r"^The bound follows from the guarantee alone",
    r"^The average is that of a Bayesian",
    r"^(Do not|Whoever claims to have found)",
    r"noise alone",
    r"^Theorem [23]: .*(to compare|it is not the rho|does not give it back)",
    r"rho is the one that a pure epsilon gives",
    r"^At most: but for a chance of delta",
    r"^Standard deviation of the noise",
    r"^tallyveil: the strategy spends .* on counts that are exact anyway",
    r"^The noise made constraints conflict",
    r"^Move these shares",
    r"^This is a trial with a known seed",
    r"^7, inverted\); it is not the rho",
    r"^Theorem 3: .*rho is the largest that gives epsilon",
    r"measurements?, each counted once: ",
    r"^(county|group|block) \w+ \| \d+ \| ",
    r"^sqrt\(2 rho\)",
    r"^Per attribute and within levels without",
    r"^certificate \| ",
    r"^Check the folder",
    r"^holds \| (declared|rendering|page|manifest)",
    r"^These \d+ releases",
    r"A small count does not show",
    r"^The limit is epsilon",
    r"^Each (line|release)",
    r"^Seeded, for research only",
    r"^\d+ of \d+ lines are signed",
    r"^(us|county|group|block) \| ",
    r"^(total|age|home|detailed) \| ",
    r"^query \| ",
    r"^about \| ",
    r"^level \| ",
    r"^total population of every \| ",
    r"^share of the budget",
    r"^Use the published count",
    r"unbiased estimates",
    r"the margin is",
    r"^Expected standard deviation",
    r"^unchecked \| signature",
    r"^Where it matters that errors cancel out",
]


def claims_of(found: list[Statement]) -> Iterator[Claim]:
    """All claims of a page; one of kind "unread" for a statement about privacy that nothing here recognises."""
    chance: float | None = None
    whole = (
        found and not found[0].page.startswith("report") and any(SEEDLESS.search(statement.text) for statement in found)
    )
    for statement in found:
        made = list(_claims(statement))
        for figure in re.findall(rf"at delta {NUMBER}", statement.text):
            value, _ = number(figure.rstrip("."))
            made.append(Claim("delta", value, "record", statement))
        if re.search(r"for (all neighbours|neighbours that)", statement.text) and not any(
            claim.kind == "conditions" for claim in made
        ):
            made += _conditions(re.match("", ""), statement) if made else []
        for claim in made:
            condition = {"agree"} if AGREE.search(statement.text) or "listed" in claim.scope else set()
            condition |= (
                {"no seed"}
                if whole or any(SEEDLESS.search(text) for text in (*statement.before, statement.text))
                else set()
            )
            claim = replace(claim, condition=frozenset(condition))
            if claim.kind == "factor":
                chance = claim.chance
            elif claim.kind == "sure" and claim.chance is None and "So someone" in statement.text:
                claim = replace(claim, chance=chance)
            yield claim


def _claims(statement: Statement) -> Iterator[Claim]:
    if statement.cells:
        rows = list(_row(statement))
        if rows:
            yield from rows
            return
    for pattern, make in SENTENCES:
        match = re.search(pattern, statement.text)
        if match:
            yield from make(match, statement)
            return
    if WORDS.search(statement.text) and not any(re.search(pattern, statement.text) for pattern in KNOWN):
        yield Claim("unread", 0.0, "", statement)


def _row(statement: Statement) -> Iterator[Claim]:
    first, cells = statement.cells[0], statement.cells
    if statement.header[:1] == ("about",) and len(cells) == 4 and first != "about":
        scope = _about(first)
        yield from _cell("epsilon", cells[1], scope, statement)
        yield from _cell("sure", cells[2], scope, statement)
        yield from _cell("average", cells[3], scope, statement)
    elif statement.header[:1] == ("total population of every",) and first != statement.header[0]:
        yield from _cell("typical error", cells[1], first, statement)
        yield from _cell("margin", cells[2], first, statement)
    elif statement.header[:1] == ("query",) and first not in ("query", "share of the budget"):
        for level, cell in zip(statement.header[1:], cells[1:], strict=False):
            kind = "expected" if any("Expected" in text for text in (statement.section, *statement.before)) else "noise"
            kind = "usable" if "Smallest count" in statement.section else kind
            if re.match(r"exact|[\d.]", cell):
                yield from _cell(kind, cell.split()[0], f"{first}@{level}", statement)
    elif first == "holds" and cells[1] == "invariants" and cells[2].endswith(" exact"):
        names = tuple(tuple(name.split("@")) for name in cells[2].removesuffix(" exact").split(", "))
        yield Claim("exact", 0.0, "verified", statement, names=names)
    elif first in ("epsilon of an attribute", "epsilon of a place"):
        pattern = rf"(?:within the )(\w+) {NUMBER}" if first.endswith("place") else rf"(\w+) {NUMBER}"
        scope = "place" if first.endswith("place") else "attribute"
        for name, figure in re.findall(pattern, cells[2]):
            yield from _cell("epsilon", figure, f"{scope} {name}", statement)
    else:
        for pattern, kind, scope in ROWS:
            match = re.fullmatch(pattern, first)
            if match and len(cells) > 1 and re.match(NUMBER, cells[1]):
                yield from _cell(kind, cells[1], scope.format(**match.groupdict()), statement)
                return


def _cell(kind: str, text: str, scope: str, statement: Statement) -> Iterator[Claim]:
    if text == "exact":
        yield Claim(
            "exact", 0.0, scope, statement, names=(tuple(scope.split("@")) if "@" in scope else ("total", scope),)
        )
    elif re.fullmatch(NUMBER, text):
        value, digits = number(text)
        yield Claim(kind, value, scope, statement, digits=digits)


def _about(words: str) -> str:
    if words == "the whole record":
        return "records"
    place = re.fullmatch(r"the place within (?:the |a )?(.+)", words)
    return f"place {place[1]}" if place else f"attribute {words}"
