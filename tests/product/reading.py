"""Statements as typed claims: what is claimed, of what, and under which condition.

To follow a page whose wording changes, add or edit an entry of SENTENCES, ROWS or KNOWN. A sentence with one of the
WORDS that no entry matches makes the test fail, so that no claim goes unread.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from claims import NUMBER, ROOT, Claim, Exact, chance_of, conditions_in, number
from statements import Statement

SURE = rf"can become at most (?:{NUMBER}|practically 100)% sure"
BOTH = r"(?:, both of which [^,]*(?:, [^,]*and [^,]*)?,|,)"
CHANCE = r"(?:,? but for a chance of (?P<chance>[^.,;]+))?"
WORDS = re.compile(
    r"epsilon|\brho\b|\bdelta\b|guarant|\bsure\b|chance|\bexact|\bnoise\b|protect|privacy|\blikely\b|\bodds\b"
    r"|counted once|not for publication|is left",
    re.I,
)
SEEDLESS = re.compile(r"without a seed|without the seed|no guarantee|are no guarantee|if it had no seed", re.I)


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


AMOUNT = re.compile(r"(?:([\d,]+) of (?:the )?)?(.+?) of (?:([\d,]+) of [\d,]+ units of (\w+)|(.+))")


def _exact(match: re.Match[str], source: Statement) -> list[Claim]:
    """What a list of exact counts names; `number` of them in `units` units of a level, all of them where that is 0."""
    found: list[Exact] = []
    short = " ... " in match[1]  # a terminal leaves out the middle of a long list
    for part in match[1].rstrip(".").split("; "):
        if " ... " in part:
            continue
        words, fixed = re.subn(r" \(fixed in the release only\)$", "", part.strip())
        if re.fullmatch(r"the number of \w+ in all", words):
            found.append(Exact("total", ROOT))
            continue
        said = re.fullmatch(r"(?P<query>.+) is exact for (?P<levels>.+)", words)
        amount = AMOUNT.fullmatch(words)
        if said is None and amount is None:
            return [Claim("unread", 0.0, part, source)]
        if said:
            found += [Exact(said["query"], level) for level in _levels(said["levels"])]
            continue
        number, what, units, level, levels = amount.groups()
        query = "detailed" if what == "all counts" else re.sub(r" and |, ", " * ", what.removeprefix("counts by "))
        found += [
            Exact(query, each, int(number or 0), int(units or 0), fixed=bool(fixed))
            for each in ([level] if level else _levels(levels))
        ]
    return [Claim("exact", 0.0, "part of the release" if short else "release", source, exact=tuple(found))]


def _levels(words: str) -> list[str]:
    """The levels of a list; the one unit of the first level has an article, and is `@root`."""
    return [
        ROOT if level.startswith("the ") else level.removeprefix("every ") for level in re.split(r", | and ", words)
    ]


def _conditions(_: re.Match[str], source: Statement) -> list[Claim]:
    """For which neighbours a statement says that something holds."""
    return [Claim("conditions", 0.0, "neighbours", source, words=conditions_in(source.text) - {"filter"})]


def _root(_: re.Match[str], source: Statement) -> list[Claim]:
    return [Claim("exact", 0.0, "root", source, exact=(Exact("total", ROOT),))]


def _noise(match: re.Match[str], source: Statement) -> list[Claim]:
    value, digits = number(match[3])
    return [Claim("noise", value, f"{match[1]}@{match[2]}", source, digits=digits)]


TIMES = rf"(?:{NUMBER}(?: (?P<size>million|billion))?|(?P<most>more than a trillion))"


def _times(match: re.Match[str], source: Statement) -> list[Claim]:
    """How many times more or less likely something can become; "could" with more than a trillion bounds nothing."""
    if match["most"]:
        return [Claim("group", 0.0, "record", source)]
    value = number(match[1])[0] * {None: 1.0, "million": 1e6, "billion": 1e9}[match["size"]]
    scope = "in or out" if source.before and source.before[-1].startswith("Add or remove") else "records"
    return [Claim("factor", value, scope, source, chance_of(match["chance"]))]


def _sure(scope: str) -> Maker:
    def made(match: re.Match[str], source: Statement) -> list[Claim]:
        chance = re.search(r"but for a chance of ([^.,;]+)", source.text)
        return [
            Claim("sure", _share(match[1]), scope, source, chance_of(chance[1] if chance else None)),
        ]

    return made


def _share(text: str | None) -> float:
    """Percents as a share; practically 100% bounds nothing."""
    return 1.0 if text is None else number(text)[0] / 100


def _in_or_out(match: re.Match[str], source: Statement) -> list[Claim]:
    one, two = _sure("in or out")(match, source)[0], _sure("records")(match, source)[0]
    return [one, replace(two, value=_share(match[2]))]


# sentences, searched for in this order; the first that is found is the only one
SENTENCES: list[tuple[str, Maker]] = [
    (rf"(?:have been at most|then be) {TIMES} times more or less likely{CHANCE}", _times),
    (rf"two possibilities about (?:this \w+|you) equally likely{BOTH} {SURE} of one of them", _sure("records")),
    (
        rf"equally likely that (?:this \w+ is|you are) in the data or not{BOTH} {SURE} of it.*"
        rf"; of two possibilities about a \w+ known to be in the data, at most (?:{NUMBER}|practically 100)%",
        _in_or_out,
    ),
    (
        rf"gives its true value a probability of at most {NUMBER}% on average over the noise",
        _figure("average", "attributes"),
    ),
    (rf"The loss exceeds {NUMBER} with a probability of at most delta", _figure("certain", "record")),
    (r"for a family of four, epsilon is four times as large( or more)?", _fact("group")),
    (rf"pure differential privacy with epsilon {NUMBER}", _figure("epsilon", "record")),
    (rf"{NUMBER}-differential privacy \(pure\)", _figure("epsilon", "record")),
    (rf"(?i)zero-concentrated differential privacy with rho (?:= )?{NUMBER}", _figure("rho", "record")),
    (
        rf"\({NUMBER}, {NUMBER}\)-differential privacy by privacy loss distribution \(rho = {NUMBER}",
        _several(_figure("epsilon", "record"), _figure("delta", "record", 2), _figure("rho", "record", 3)),
    ),
    (rf"^Epsilon {NUMBER} at delta {NUMBER} bounds an expectation", _figure("epsilon", "record")),
    (rf"^{NUMBER} epsilon(?: at delta {NUMBER})?$", _figure("epsilon", "record")),
    (r"^Nothing is known to be exact", _fact("nothing exact", "release")),
    (r"(?:Published without noise, and not protected|Exact, so outside the guarantee): (.+)", _exact),
    (r"Totals have no error|^Totals of all places are exact", _fact("exact totals")),
    (r"^The (number of (?:people|records) in all) is the same for neighbours and is kept exactly", _root),
    (rf"^A (?:count of )?(.+) at level (\w+) would get noise with a standard deviation of {NUMBER}", _noise),
    (
        rf"^By zCDP, it would take rho {NUMBER}: variances are {NUMBER}% smaller",
        _several(_figure("rho by zcdp", "record"), _figure("smaller", "record", 2)),
    ),
    (
        rf"in every (\w+), its standard deviation is up to {NUMBER} persons",
        lambda m, s: [Claim("noise of", (v := number(m[2])[0]), m[1], s, digits=10 ** (math.floor(math.log10(v)) - 1))],
    ),
    (r"covers a person provided that each person has one", _fact("rows of a person", "unknown")),
    (r"^Each person has one record, which was checked", _fact("rows of a person", "1")),
    (
        rf"^A person has at most {NUMBER} records, which was checked .* covers all of them together",
        lambda m, s: [Claim("rows of a person", 0.0, m[1], s)],
    ),
    (
        rf"^The counts also keep {NUMBER} public rules?, listed below",
        _figure("rules", "release"),
    ),
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
        _several(_figure("rho converted", "all"), _figure("epsilon from rho", "all", 2)),
    ),
    (
        rf"Theorem 3: epsilon {NUMBER}, delta {NUMBER}, rho {NUMBER}: epsilon is the smallest",
        _several(_figure("epsilon from rho", "all"), _figure("rho converted", "all", 3)),
    ),
    (rf"The noise is geometric and epsilon {NUMBER} pure", _figure("epsilon", "all")),
    (rf"Theorem 2: epsilon {NUMBER}, delta 0, rho {NUMBER}: rho is the one", _figure("epsilon", "all")),
    (rf"The guarantee is epsilon {NUMBER} at delta", _figure("epsilon", "all")),
    (rf"^line \d+: release\d, epsilon {NUMBER}", _figure("epsilon", "one")),
    (rf"^line \d+: release\d, rho {NUMBER}", _figure("rho", "one")),
    (rf"release\d: epsilon {NUMBER}", _figure("epsilon", "one")),
    (rf"release\d: rho {NUMBER}", _figure("rho", "one")),
    (rf"^protecting .*; epsilon {NUMBER}(?:, rho {NUMBER})?(?: for each of up to|$)", _figure("epsilon", "record")),
    (rf"^protecting .*; rho {NUMBER}(?: for each of up to|$)", _figure("rho", "record")),
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
    (r"epsilon, but for delta", "certain", "record"),
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
    r"^(Replace|Add or remove) the record of any one ",  # the sentence after it has the figure
    r"^Nothing else is known to be exact",  # left_out
    r"^What exact counts tell has no bound",
    r"^pld epsilon \| - \| not computed: a person has up to",
    r"^no epsilon from privacy loss distributions: .* a person has several records",
    r"^Nothing: this is a trial with a known seed",
    r"^Without the seed, these figures would hold",
    r"^A fact is one of two possibilities ",  # the rows of the table after it have its conditions
    r"^What is published exactly is not protected",
    r"^What is exact: someone who knows everybody else can subtract",
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
    r"^The average is the mean probability that a Bayesian",
    r"^The intruder uses every noisy count",
    r"^How many records a person has",
    r"^only where exact counts do not tell it: they do in some places",
    r"^Whoever knows the seed of this trial",
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
    r"A small count (of a group )?that is not exact does not show",
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
    report = bool(found) and found[0].page.startswith("report")
    seedless = not report and any(SEEDLESS.search(statement.text) for statement in found)
    of_page = " ".join(statement.text for statement in found)
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
            before = " ".join(statement.before)
            condition = set(conditions_in(_around(claim, of_page)))
            if seedless or SEEDLESS.search(f"{before} {statement.text}"):
                condition.add("no seed")
            yield replace(claim, condition=frozenset(condition))


def _around(claim: Claim, of_page: str) -> str:
    """The text with the conditions of a claim: those of a table stand above it, or beside the names of releases."""
    statement = claim.source
    if statement.cells and statement.page.startswith("account"):
        return of_page
    if statement.cells:
        return " ".join((statement.section, *statement.before, statement.text))
    if claim.kind == "factor":
        return " ".join((*statement.before[-1:], statement.text))
    return statement.text


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
        if cells[1] == "no bound":
            assert cells[2:] == ("100%: exact counts tell it", "\N{EN DASH}"), cells
            yield Claim("told in part" if scope.startswith("place") else "told", 0.0, scope, statement)
        yield from _cell("certain" if "delta" in statement.header[1] else "epsilon", cells[1], scope, statement)
        for kind, cell in zip(("sure", "average"), cells[2:], strict=True):
            if cell.endswith("%"):
                value, digits = number(cell.removeprefix("practically ").removesuffix("%"))
                but = re.search(r"but for a chance of ([^.,;]+)", " ".join(statement.before))
                yield Claim(kind, value / 100, scope, statement, chance_of(but and but[1]), digits / 100)
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
        named = tuple(Exact(*name.split("@")) for name in cells[2].removesuffix(" exact").split(", "))
        yield Claim("exact", 0.0, "verified", statement, exact=named)
    elif first in ("epsilon of an attribute", "epsilon of a place"):
        pattern = rf"(?:within the )(\w+) {NUMBER}" if first.endswith("place") else rf"(\w+) {NUMBER}"
        scope = "place" if first.endswith("place") else "attribute"
        for name, figure in re.findall(pattern, cells[2]):
            yield from _cell("epsilon", figure, f"{scope} {name}", statement)
    else:
        for pattern, kind, scope in ROWS:
            match = re.fullmatch(pattern, first)
            if match and cells[1] == "-" and kind == "epsilon" and scope.startswith("attribute"):
                yield Claim("told", 0.0, scope.format(**match.groupdict()), statement)
                return
            down = re.search(r"they tell the place, .* down to the (\w+)$", cells[-1]) if match else None
            if down:
                where = scope.format(**match.groupdict())
                yield Claim("told down to", 0.0, where, statement, words=frozenset({down[1]}))
                if cells[1] == "-":
                    return
            if match and len(cells) > 1 and re.match(NUMBER, cells[1]):
                yield from _cell(kind, cells[1], scope.format(**match.groupdict()), statement)
                return


def _cell(kind: str, text: str, scope: str, statement: Statement) -> Iterator[Claim]:
    if text == "exact":
        query, _, level = scope.partition("@") if "@" in scope else ("total", "", scope)
        yield Claim("exact", 0.0, scope, statement, exact=(Exact(query, level),))
    elif re.fullmatch(NUMBER, text):
        value, digits = number(text)
        yield Claim(kind, value, scope, statement, digits=digits)


def _about(words: str) -> str:
    whole = {
        "the whole record": "records",
        "whether somebody is in the data": "in or out",
        "the record of somebody in the data": "records",
    }
    if words in whole:
        return whole[words]
    words = words.removesuffix(", where exact counts do not tell it")
    place = re.fullmatch(r"the place within (?:the |an? )?(.+)", words)
    return f"place {place[1]}" if place else f"attribute {words}"
