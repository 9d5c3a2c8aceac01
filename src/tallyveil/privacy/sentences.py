"""Every sentence about a guarantee: what is promised, for whom, what is exact, what is not covered, and what it costs.

Pages, commands, read-me files and the ledger place these words; no other module says what is guaranteed or writes an
epsilon, a rho or a delta. Losses are rounded up (``up``), what is left of a limit and proven lower bounds down
(``down``). A sentence about what an observer can learn uses an epsilon that holds for every outcome, or for every
outcome but for a chance of delta (``Guarantee.certain``): the epsilon of a budget at delta bounds an expectation only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from tallyveil.nouns.schema import DETAILED, TOTAL
from tallyveil.privacy.budget import down, text, up
from tallyveil.privacy.guarantee import OTHER, Account, ExactCounts, Guarantee

if TYPE_CHECKING:
    from tallyveil.privacy.several_releases import Cost, Together
    from tallyveil.privacy.theorems import Conversion

Limited = tuple[Fraction, Fraction]  # the epsilon and the delta of a limit

SEEDED = "seeded: not for publication"
FILTERED = "filtered: the exact number of people who pass the filter is not covered by the guarantee"
LABELS_FROM_DATA = "labels from data: not covered by the guarantee"
UNITS_FROM_DATA = "units from data: not covered by the guarantee"
HOUSING = (
    "Occupied and vacant housing units and group quarters are written exactly as they were given: no noise is added. "
    "If they were not protected before, these are true counts, which no guarantee covers."
)
_STAMPS = {  # what a stamp means for readers, and what the promise does not cover
    "seeded": (
        "This is a trial with a known seed, which can remove the noise: not for publication.",
        "Anything, from those who know the seed.",
    ),
    "units from data": (
        "The list of places was made from the data and is not protected.",
        "Which places are listed: the list was made from the data, so it can show that somebody was counted there.",
    ),
    "labels from data": (
        "The list of groups was made from the data and is not protected.",
        "Which groups are listed: the list was made from the data, so it can show that somebody belongs to one.",
    ),
    "filtered": (
        "The number of people who pass the filter is exact and is not protected.",
        "How many people pass the filter: their number is exact, so it can show whether somebody does.",
    ),
}
FROM_DATA = {  # comments in drafted codebooks
    "labels_from": (
        "The labels below are those met in the data, so a label that one person has would be published.\n"
        "List every label that can occur, whether anybody has it or not, then remove labels_from.\n"
        "Until then every release is stamped: labels are not covered by the guarantee."
    ),
    "units_from": (
        "The units and levels are those met in the data, so a place where one person lives would be published.\n"
        "Use a public list of units, empty ones too (--units FILE), then remove units_from.\n"
        "Until then every release is stamped: units are not covered by the guarantee."
    ),
}
NEIGHBOURS = {
    "replace-one": "two datasets in which one {}'s record, place and attributes, is replaced by any other record",
    "add-or-remove": "two datasets of which one has one {}'s record more",
}
PROTECTION = "computational, through the stream cipher"
SOURCES = {
    "constant": "constant: known before any data",
    "facilities": "facilities: public counts of facilities, published beside the release",
    "truth": "truth: an invariant, kept exactly and outside the guarantee",
}
CHECKED = "the data are checked against it, so the guarantee covers neighbours that satisfy it"
UNCHECKED = "enforced on the release only; the data are not compared with it"
MECHANISMS = {
    "geometric": "two-sided geometric noise: pure differential privacy",
    "gaussian": "discrete Gaussian noise: zero-concentrated differential privacy",
}
DELTA = "of the guarantee"  # beside a strategy's delta
NO_PROMISE = math.log(1e12)  # an epsilon above which a guarantee promises nothing: an observer can become certain


# -- Figures ----------------------------------------------------------------------------------------------------------


def most_certain(epsilon: float) -> str:
    """How sure an observer can become who considered two possibilities equally likely: e^epsilon / (1 + e^epsilon).

    >>> most_certain(0.1), most_certain(1.0), most_certain(17.15), most_certain(60.0)
    ('52.5%', '73.2%', '99.999997%', 'practically 100%')
    """
    if epsilon > NO_PROMISE:
        return "practically 100%"
    doubt = 1 / (1 + math.exp(epsilon))
    places = max(1, -math.floor(math.log10(doubt)) - 2)
    return f"{math.ceil((1 - doubt) * 10 ** (places + 2)) / 10**places:.{places}f}%"


def factor(epsilon: float) -> str:
    """The largest ratio of the probabilities of an outcome, exp(epsilon), in words.

    >>> factor(0.1), factor(1.0), factor(17.1), factor(1e9)
    ('1.11', '2.72', '27 million', 'more than a trillion')
    """
    if epsilon > NO_PROMISE:
        return "more than a trillion"
    value = math.exp(epsilon)
    for size, word in ((1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{math.ceil(value / size):,} {word}"
    return up(value, places=0) if value >= 100 else f"{float(up(value, places=2)):g}"


def chance(delta: float) -> str:
    """A small probability in words, never smaller than it is.

    >>> chance(1e-10), chance(1e-6), chance(0.003), chance(0.9)
    ('1 in 10 billion', '1 in 1 million', '1 in 333', '9 in 10')
    """
    odds = math.floor(1 / delta * (1 + 1e-12))
    for size, word in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if odds >= size:
            return f"1 in {odds // size:,} {word}"
    return f"1 in {odds:,}" if odds >= 10 else f"{math.ceil(10 * delta - 1e-12)} in 10"


def small(delta: Fraction | float) -> str:
    """A delta as it was chosen.

    >>> small(1e-10), small(Fraction(1, 10**6))
    ('1e-10', '1e-06')
    """
    return f"{float(delta):.12g}"


def at_delta(delta: Fraction | float | None) -> str:
    """The delta that a figure is for, if there is one."""
    return "" if delta is None else f" at delta {small(delta)}"


def listed(words: Iterable[str]) -> str:
    """Words in a list.

    >>> listed(["age"]), listed(["age", "sex", "race"])
    ('age', 'age, sex and race')
    """
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def the_whole(level: str) -> str:
    """The one unit of the first level: its name, with an article unless it is a proper name.

    >>> the_whole("Italia"), the_whole("nation"), the_whole("all")
    ('Italia', 'the nation', 'the whole')
    """
    if level == "all":
        return "the whole"
    return level if level[:1].isupper() else f"the {level.replace('_', ' ')}"


# -- The guarantee ----------------------------------------------------------------------------------------------------


def kind(g: Guarantee) -> str:
    """The kind of the guarantee with its figures; the loss instead of the budget where no neighbours reach it."""
    figures = g.account
    if figures.rho is None:
        whole = figures.epsilon == g.whole
        return f"{text(g.budget) if whole else up(figures.epsilon, digits=6)}-differential privacy (pure)"
    rho = text(g.budget) if figures.rho == g.whole else up(figures.rho, digits=6)
    if figures.accountant == "pld":
        return (
            f"({up(figures.epsilon, digits=10)}, {small(figures.delta or 0)})-differential privacy by privacy loss "
            f"distribution (rho = {rho} as zero-concentrated differential privacy)"
        )
    return f"zero-concentrated differential privacy with rho = {rho}"


def agreement(g: Guarantee) -> str:
    """The neighbours that the guarantee covers, in a few words."""
    exact = ["agree on all invariants"] if g.neighbours == "replace-one" or g.invariants else []
    held = ["satisfy all listed constraints"] if g.constraints else []
    return f"for neighbours that {' and '.join([*exact, *held])}" if exact or held else "for all neighbours"


def one_line(g: Guarantee) -> str:
    """The guarantee in one line: the kind, and the neighbours that it covers."""
    return f"{kind(g)}, {agreement(g)}"


def same_people(g: Guarantee) -> str:
    """What replace-one neighbours have in common."""
    return f"The number of {g.counted} in all is the same for neighbours and is kept exactly."


def holds_for(g: Guarantee) -> str:
    """The neighbours that the guarantee covers, in full."""
    exact = [*([f"the number of {g.counted} in all"] if g.neighbours == "replace-one" else []), *g.invariants]
    parts = [neighbours(g)]
    if g.filtered is not None:
        parts.append(f"all records pass the filter ({g.filtered[0]})")
    if exact:
        parts.append(f"both agree on all invariants ({'; '.join(exact)})")
    if g.constraints:
        parts.append(f"both satisfy all listed constraints ({'; '.join(g.constraints)})")
    return "; ".join(parts)


def neighbours(g: Guarantee) -> str:
    """Which two datasets are neighbours."""
    rows = g.rows_per_person or 1
    several = f"; a person has up to {rows} records, and neighbours differ in all of them" if rows > 1 else ""
    return f"{NEIGHBOURS[g.neighbours].format(g.record)}{several}"


def condition(g: Guarantee) -> str:
    """What has to be true of the data for the promise to cover a person: whose records they are."""
    if g.record != "person":
        return f"The records are {g.record}s: the promise is for one {g.record} and not for the people in it."
    if g.rows_per_person is None:
        return "The promise is for one record: it covers a person provided that each person has one."
    return rows_of_a_person(g.rows_per_person)


def rows_of_a_person(rows: int) -> str:
    """How many records of a person were found, and that the promise covers them."""
    if rows == 1:
        return "Each person has one record, which was checked by their identifiers."
    return (
        f"A person has at most {rows} records, which was checked by their identifiers, and the promise covers all of "
        f"them together."
    )


def figure(g: Guarantee) -> str:
    """Epsilon, as a page shows it large."""
    return up(g.account.epsilon, places=2)


def at(g: Guarantee) -> str:
    """The delta beside it."""
    return at_delta(g.account.delta).strip()


def for_specialists(g: Guarantee, mechanism: str, covers: str) -> str:
    """What stands above the figures of a certificate: the kind of the guarantee, its neighbours, and the noise."""
    total = f" {same_people(g)}" if g.neighbours == "replace-one" else ""
    return (
        f"This is {kind(g)}, {agreement(g)}.{total} Neighbours ({g.neighbours}) are {covers}. The noise is "
        f"{mechanism}, drawn exactly. The protection is {PROTECTION} that makes the noise."
    )


def promise(g: Guarantee) -> list[str]:
    """What is promised, in paragraphs: the factor, how sure one can become, and what the figures are for."""
    one, but = g.record, but_for_chance(g)
    change = (
        f"Replace the record of any one {one} by any other record"
        if g.neighbours == "replace-one"
        else f"Add or remove the record of any one {one}"
    )
    kept = _where(g, "no exact count changes", "all rules that are kept still hold", "it still passes the filter")
    paragraphs = []
    if g.seeded:
        paragraphs.append(
            "Nothing, because this release is seeded: whoever knows its seed can remove the noise. Without a seed, it "
            "would be this."
        )
    could = "could then be" if g.certain > NO_PROMISE else "would then have been at most"
    paragraphs.append(
        f"{change}{f', so that {listed(kept)}' if kept else ''}. Whatever is published here {could} "
        f"{factor(g.certain)} times more or less likely{but}. So {sureness(g)}. The smaller epsilon, the stronger "
        f"the promise.{' What the red box names is not covered.' if g.stamps and not g.seeded else ''}"
    )
    if g.certain != g.account.epsilon:
        paragraphs.append(
            f"Epsilon {up(g.account.epsilon, places=2)} at delta {small(g.account.delta or 0)} bounds an expectation. "
            f"The loss exceeds {up(g.certain, places=2)} with a probability of at most delta, and the sentences above "
            f"use that figure."
        )
    return paragraphs


def sureness(g: Guarantee, *, you: str | None = None) -> str:
    """How sure an observer can become, in a clause; ``you`` speaks to the reader."""
    who = you or f"this {g.record}"
    fit = _where(g, "agree with all exact counts", "keep all rules", "pass the filter")
    both = f", both of which {listed(fit)}" if fit else ""
    knows = "someone who knew everything about everybody else"
    from_all = " from all that is published here" if you else ""
    if g.neighbours == "replace-one":
        return (
            f"{knows}, and considered two possibilities about {who} equally likely{both}, can become at most "
            f"{most_certain(g.certain)} sure of one of them{from_all}{but_for_chance(g)}"
        )
    are = "are" if you else "is"
    return (
        f"{knows}, and considered it equally likely that {who} {are} in the data or not{both}, can become at most "
        f"{most_certain(g.certain)} sure of it{from_all}{but_for_chance(g)}; of two possibilities about a {g.record} "
        f"known to be in the data, at most {most_certain(g.between_records)}"
    )


def _where(g: Guarantee, invariants: str, constraints: str, membership: str) -> list[str]:
    """The words for what neighbours agree on, where there is something to agree on."""
    held = ((invariants, g.invariants), (constraints, g.constraints), (membership, g.hides_membership))
    return [words for words, there in held if there]


def but_for_chance(g: Guarantee) -> str:
    """That a bound holds but for a chance of delta, unless the guarantee is pure."""
    return "" if g.account.delta is None else f", but for a chance of {chance(g.account.delta)}"


def to_you(g: Guarantee) -> str:
    """What is promised to every single person, in a sentence or two for the first screen of a report."""
    if g.seeded:
        return "Nothing: this is a trial with a known seed, and whoever knows it can remove the noise."
    said = sureness(g, you="you" if g.record == "person" else None)
    exact = " What is published exactly is not protected." if g.unprotected else ""
    stamps = " What the box above names is not covered." if g.stamps else ""
    return f"{said[0].upper()}{said[1:]}.{exact}{stamps}"


def of_records(g: Guarantee) -> list[tuple[str, float]]:
    """What a whole record is about for an observer, each with the epsilon that holds but for a chance of delta."""
    if g.neighbours == "replace-one":
        return [("the whole record", g.certain)]
    return [("whether somebody is in the data", g.certain), ("the record of somebody in the data", g.between_records)]


def learned(g: Guarantee, typical: float) -> str:
    """What can be learned about one person: the bound, and the average (missing where it is not known)."""
    said = sureness(g)
    if g.seeded:
        return (
            f"Whoever knows the seed of this trial can remove the noise and learn everything. Without the seed, {said}."
        )
    words = f"{said[0].upper()}{said[1:]}."
    if typical == typical:
        noisy = ", where exact counts do not tell it," if g.unprotected else ","
        words += (
            f" That is the worst case over everything that could happen. Someone who knows everybody else, and one "
            f"{g.record} but for one attribute{noisy} gives its true value a probability of at most {average(typical)} "
            f"on average over the noise."
        )
    return words


def average(typical: float) -> str:
    """The average probability that an observer gives to the truth, rounded up; a dash where it is not known.

    >>> average(0.60341)
    '60.4%'
    """
    return f"{up(100 * typical, digits=3)}%" if typical == typical else "\N{EN DASH}"


def learned_definition(g: Guarantee) -> str:
    """What the figures of an observer mean."""
    fit = _where(g, "agree with all exact counts", "keep all rules", "pass the filter")
    kept = f", and both possibilities {listed(fit)}" if fit else ""
    seed = "Without the seed, these figures would hold. " if g.seeded else ""
    return (
        f"{seed}The bound follows from the guarantee alone: with epsilon e, odds can change by a factor of at most "
        "exp(e), whatever the intruder knows already and however they use the release"
        f"{but_for_chance(g)}. A fact is one of two possibilities for a {g.record}'s record, or for one attribute, or "
        f"for where in a place it belongs{kept}. What exact counts tell has no bound. The average is the mean "
        "probability that a Bayesian intruder with even odds between two values of an attribute gives to the true one. "
        "The intruder uses every noisy count of every level before post-processing, at the place with the least noise; "
        "published counts tell no more."
    )


def learned_heading(g: Guarantee) -> str:
    """The heading of the epsilons that bound what can be learned."""
    return "epsilon" if g.account.delta is None else "epsilon, but for delta"


def at_most(epsilon: float) -> str:
    """How sure one can become from even odds, in a table."""
    return most_certain(epsilon) if epsilon < math.inf else "100%: exact counts tell it"


def curve(about: str, epsilon: float, *, alone: bool) -> str:
    """The name of a line in a chart."""
    what = f"about {about} alone" if alone else f"about {about}"
    return f"{what} ({f'epsilon {loss_in_table(epsilon)}' if epsilon < math.inf else 'exact counts tell it'})"


def loss_in_table(epsilon: float) -> str:
    """A loss in a table."""
    return up(epsilon, places=2) if epsilon < math.inf else "no bound"


def not_promised(g: Guarantee) -> list[str]:
    """What the guarantee does not promise, and what is not covered."""
    more = "" if g.account.delta is None else " or more"
    subtract = "What is exact: someone who knows everybody else can subtract them, and learns what it says of the last."
    return [
        "That a count is right: every count that is not exact has an error, and small counts tend to come out too "
        "large.",
        f"That nothing can be learned about people in general: what would be just as visible without a {g.record}'s "
        "record is not protected.",
        *([subtract] if g.unprotected else []),
        *(["How many records a person has: the number of records in all is exact."] if g.counted == "records" else []),
        f"The same protection for a group: for a family of four, epsilon is four times as large{more}.",
        "Protection against several releases together: each further measurement of the same people adds to epsilon.",
        *(uncovered(stamp) for stamp in g.stamps if stamp != SEEDED),
    ]


def exact_words(g: Guarantee) -> list[str]:
    """What is published exactly, and so lies outside the promise."""
    root = next(iter(g.levels))
    by_query: dict[str, list[str]] = {}
    for query, level in g.exact:
        if (query, level) != (TOTAL, root) or g.neighbours != "replace-one":
            by_query.setdefault(query, []).append(level)
    words = [f"the number of {g.counted} in all"] if g.neighbours == "replace-one" else []
    words += [f"{_counts_of(query)} of {_places(levels, root)}" for query, levels in by_query.items()]
    words += [_single_values(one, g.levels[one.level], root) for one in _together(g.exact_values)]
    said = {f"{query} is exact for every {level}" for query, levels in by_query.items() for level in levels}
    of_root = f"is exact for every {root}"
    return words + [one.replace(of_root, f"is exact for {the_whole(root)}") for one in g.invariants if one not in said]


def exact_paragraphs(g: Guarantee) -> list[str]:
    """What is exact, and which rules the counts keep."""
    exact, rules = exact_words(g), len(g.constraints) + g.unchecked
    zeros = ", besides the parts of counts that are exactly 0" if len(exact) > 1 else ""
    said = [
        f"Published without noise, and not protected: {'; '.join(exact)}. Nothing else is known to be exact{zeros}."
        if exact
        else "Nothing is known to be exact."
    ]
    if rules:
        said.append(f"The counts also keep {rules} public rule{'s' if rules > 1 else ''}, listed below.")
    return said


def stamp(g: Guarantee, text: str) -> str:
    """A stamp; that of a seed is explained where the noise of this run does not come from it."""
    of_data = " (this stamp is of the data that were read; the noise of this run does not come from a seed)"
    return f"{text}{of_data}" if text == SEEDED and not g.seeded else text


def stamp_in_words(g: Guarantee, text: str) -> str:
    """A stamp as readers understand it."""
    if text == SEEDED and not g.seeded:
        return stamp(g, text)
    return next((words for start, (words, _) in _STAMPS.items() if text.startswith(start)), text)


def uncovered(stamp: str) -> str:
    """What the promise does not cover, as a stamp says.

    >>> uncovered("units from data: not covered by the guarantee")
    'Which places are listed: the list was made from the data, so it can show that somebody was counted there.'
    """
    return next((words for start, (_, words) in _STAMPS.items() if stamp.startswith(start)), f"As stamped: {stamp}.")


def rows(figures: Account, g: Guarantee | None = None, *, stamped: bool = False) -> list[tuple[str, str, str]]:
    """The figures of a guarantee with their meanings: label, figure, meaning. A stamped release guarantees less."""
    at, by_pld = at_delta(figures.delta), figures.accountant == "pld"
    what = "the loss" if stamped or (g is not None and g.stamps) else "the guarantee"
    how = ", by privacy loss distribution" if by_pld else ""
    table = [("epsilon", _four(figures.epsilon), f"{what}{at}{how}")]
    if figures.rho is not None and figures.delta is not None:
        meaning = "the loss exceeds it with a probability of at most delta; that of epsilon may be several times delta"
        table.append(("epsilon, but for delta", _four(figures.certain), meaning))
        table.append(("rho", up(figures.rho, digits=6), "the budget of zero-concentrated differential privacy"))
    if by_pld and figures.zcdp_epsilon is not None:
        table.append(("zcdp epsilon", _four(figures.zcdp_epsilon), "what rho alone would give"))
    elif figures.pld_epsilon is not None:
        table.append(("pld epsilon", _four(figures.pld_epsilon), "the same, computed more tightly"))
    elif figures.pld_reason is not None:
        table.append(("pld epsilon", "-", f"not computed: {figures.pld_reason}"))
    if figures.implied_epsilon is not None:
        table.append(("implied epsilon", _four(figures.implied_epsilon), "sqrt(2 rho): to compare, not a guarantee"))
    one = "person" if g is None else g.record
    first = f"what is revealed about one attribute of a {one}, to someone who knows all others"
    for name, value in (figures.per_attribute or {}).items():
        label, bare = ("any other attribute" if name == OTHER else name), g is not None and g.bare(name)
        partly = g is not None and g.partly(name)
        row = ("-", _BARE) if bare else (_four(value), _PARTLY if partly else first)
        table.append((f"epsilon, {label}", *row))
        first = first if bare or partly else '"'
    first = f"what is revealed about the place of a {one}, to someone who knows its unit of this level"
    for name, value in (figures.within_level or {}).items():
        known = None if g is None else g.known_within(name)
        partly = g is not None and g.partly(within=name)
        meaning = _PARTLY if partly else first
        table.append((f"epsilon, within {name}", _four(value), meaning if known is None else f"{_KNOWN} {known}"))
        first = first if known or partly else '"'
    return table


_BARE = "not protected: exact counts tell it to someone who knows everybody else"
_PARTLY = "only where exact counts do not tell it: they do in some places, to someone who knows everybody else"
_KNOWN = "only where exact counts do not tell it: they tell the place, to someone who knows everybody else, down to the"


def notes(figures: Account) -> list[str]:
    """What else the figures need to be understood."""
    said = []
    if figures.accountant == "pld" and figures.rho is not None and figures.delta is not None:
        from tallyveil.privacy.conversions import rho_from_epsilon

        by_zcdp = rho_from_epsilon(figures.epsilon, figures.delta)
        said.append(
            f"The guarantee is epsilon {_four(figures.epsilon)}{at_delta(figures.delta)}, by privacy loss "
            f"distribution. By zCDP, it would take rho {down(by_zcdp, digits=5)}: variances are "
            f"{1 - by_zcdp / figures.rho:.1%} smaller."
        )
    if max((figures.per_attribute or {}).values(), default=0.0) > figures.epsilon:
        said.append(
            "Changing an attribute or a place takes one record out and puts another in, so its epsilon may exceed that "
            "of one record: two counts differ, not one."
        )
    if figures.basis is not None:
        said.append(
            f"Per attribute and within levels {figures.basis}, which needs a spine: see a release's certificate."
        )
    return said


def heading(g: Guarantee) -> str:
    """What stands above the figures of a plan."""
    return f"The guarantee, {agreement(g)}:"


def in_short(g: Guarantee) -> list[str]:
    """The guarantee, what lies outside it, and the stamps, a line each."""
    lines = [f"Guaranteed: {one_line(g)}"]
    lines += [f"Outside the guarantee: {'; '.join(g.invariants)}"] if g.invariants else []
    return lines + ([f"Stamped: {'; '.join(g.stamps)}"] if g.stamps else [])


def outcome(g: Guarantee) -> list[str]:
    """What a finished run guarantees, for the terminal."""
    words = exact_words(g)
    reasons = ", ".join(stamp.partition(":")[0] for stamp in g.stamps)
    said = [
        f"Exact, so outside the guarantee: {'; '.join(words)}." if words else "Nothing is known to be exact.",
        f"{f'Protected, but stamped ({reasons})' if reasons else 'Protected'}: epsilon "
        f"{up(g.account.epsilon, digits=4)}{at_delta(g.account.delta)}, {agreement(g)}.",
    ]
    if g.account.epsilon > NO_PROMISE:
        said.append(
            f"Such an epsilon promises nothing: an observer can become practically certain of a {g.record}'s record. "
            "For publication, use a smaller one (see docs/how-to/choose_a_budget.md)."
        )
    return said


def beside_tables(g: Guarantee) -> list[str]:
    """What accompanies published tables."""
    exact = [same_people(g)] if g.neighbours == "replace-one" else []
    trial = ["This is a trial with a known seed: whoever knows it can remove the noise.", ""] if g.seeded else []
    return [
        *trial,
        "The counts are protected by differential privacy: random noise was added, and the noisy counts were made "
        "consistent, whole and non-negative. Counts of few people can be far from the truth in relative terms.",
        "",
        f"Guarantee: {one_line(g)}",
        f"It covers {holds_for(g)}.",
        condition(g),
        *exact,
    ]


# -- Several releases, conversions and limits -------------------------------------------------------------------------


def budget(amounts: Mapping[str, Fraction], rows: int) -> str:
    """The budget of a strategy, which is that of one record.

    >>> budget({"rho": Fraction(3, 5)}, 1), budget({"epsilon": Fraction(1)}, 3)
    ('rho 3/5', 'epsilon 1 for each of up to 3 records of a person')
    """
    each = f" for each of up to {rows} records of a person" if rows > 1 else ""
    return f"{', '.join(f'{unit} {text(amount)}' for unit, amount in amounts.items())}{each}"


def cost(one: Cost) -> str:
    """The cost of a measurement in the unit of its kind."""
    return f"{'epsilon' if one.accountant == 'pure' else 'rho'} {up(one.loss)}"


def composed(together: Together) -> tuple[str, str, tuple[str, ...]]:
    """How several costs were added up: the theorems, the reason for readers, and the arithmetic line by line."""
    pure, rhos = ([c.loss for c in together.counted if c.accountant == name] for name in ("pure", "zcdp"))
    many = len(together.counted) > 1
    steps = [f"epsilon {_sum(pure)} (pure)"] if pure else []
    if not sum(rhos):
        how = f"the epsilons of {len(together.counted)} pure releases added" if many else "one release"
        return how, f"their epsilons add up, {_sum(pure)}", tuple(steps)
    at = f"at delta {text(together.delta)}"
    alone = up(together.of_rhos, digits=4)
    steps.append(f"rho {_sum(rhos)}: epsilon {alone} {at} (Theorem 3)")
    if not pure:
        how = f"the rhos of {len(together.counted)} zCDP releases added" if many else "one release"
        return how, f"their rhos add up, {_sum(rhos)}, which gives this epsilon", tuple(steps)
    epsilon, rho = sum(pure, Fraction(0)), sum(rhos, Fraction(0))
    as_rho = up(rho + sum((one**2 / 2 for one in pure), Fraction(0)))
    squares = " + ".join(f"({up(one)})^2 / 2" for one in pure)
    steps += [
        f"all as zCDP: rho {up(rho)} + {squares} = {as_rho} (Theorem 2): epsilon {up(together.as_zcdp, digits=4)} {at}",
        f"added: epsilon {up(epsilon)} + {alone} = {up(together.separately, digits=4)} {at}",
    ]
    if together.as_zcdp <= together.separately:
        how = (
            "pure and zCDP releases mixed: each pure epsilon counted as rho = epsilon^2 / 2 (Theorem 2), rhos added "
            "and converted at delta (Theorem 3)"
        )
        because = f"a pure epsilon counts as rho = epsilon^2 / 2, and all rhos add up to {as_rho}, which gives this"
        return how, f"{because} epsilon", tuple(steps)
    how = (
        "pure and zCDP releases mixed: the pure epsilons added to the epsilon of the rhos' sum (Theorem 3; rho: all as "
        "zCDP, Theorem 2)"
    )
    reason = (
        f"epsilon {up(epsilon)} of the pure releases, and epsilon {alone} of the others, whose rhos add up to {up(rho)}"
    )
    return how, reason, tuple(steps)


_TOLD = _KNOWN.replace("only where exact counts do not", "not protected where exact counts")


def exactly_told(promises: Sequence[Guarantee]) -> list[tuple[str, str, str]]:
    """What exact counts of one of several releases tell, as rows of their figures."""
    bare = {name: _BARE for g in promises for name in filter(g.bare, g.account.per_attribute or {})}
    known = {
        f"within {level}": f"{_TOLD} {finest}"
        for g in promises
        for level in g.account.within_level or {}
        if (finest := g.known_within(level))
    }
    return [
        (f"epsilon, {'any other attribute' if name == OTHER else name}", "-", words)
        for name, words in (bare | known).items()
    ]


OTHER_FILTERS = (
    "These releases count people by different filters, so this is not all that they reveal: the numbers of people who "
    "pass the filters are exact and not covered, and they can tell an attribute that a filter names."
)
STAMPED_ABOVE = "A release above is stamped, so these figures are no guarantee for it as it stands."


def cost_together(
    figures: Account, together: Together, populations: Mapping[str, str | None], named: int, *, stamped: bool
) -> str:
    """What releases cost a person together; ``named`` is the number of different people that they name."""
    end = f". {STAMPED_ABOVE}" if stamped else "."
    releases, measured = len(populations), len(together.counted)
    many = f"These {releases} releases" if releases > 1 else "This release"
    once = f", made from {measured} measurement{'s' if measured > 1 else ''}," if measured < releases else ""
    words = (
        f"{many}{once} {'cost' if releases > 1 else 'costs'} a person at most epsilon "
        f"{up(figures.epsilon, digits=4)}{at_delta(figures.delta)}"
    )
    if measured > 1:
        words += f": {composed(together)[1]}"
    if named > 1:
        names = "; ".join(dict.fromkeys(name for name in populations.values() if name is not None))
        return (
            f"{words}. They name different people ({names}) and were added up as if a person could be in all of them; "
            f"if nobody is in two, the largest cost counts (tallyveil ledger FILE disjoint){end}"
        )
    return f"{words}{', if all are about the same people' if releases > 1 and not named else ''}{end}"


def conditions(
    kept: str | None, invariants: Iterable[str], constraints: Iterable[str], stamps: Iterable[str]
) -> list[str]:
    """Which rows a release counts, and what its figures leave out, hold for, and are stamped with, line by line."""
    return [
        *([] if kept is None else [f"  filter: {kept}"]),
        *(f"  outside the guarantee: {words}" for words in invariants),
        *(f"  for neighbours that satisfy: {words}" for words in constraints),
        *(f"  stamped: {stamp}" for stamp in stamps),
    ]


def conversion(one: Conversion) -> str:
    """One conversion of a budget, on a line."""
    sides = f"epsilon {up(one.epsilon, digits=4)}, delta {small(one.delta)}, rho {_rho(one)}"
    return f"Theorem {one.theorem}: {sides}: {one.words}."


def reading(used: Sequence[Conversion]) -> str | None:
    """Which theorem gives which number, and which applies; None if there is only one."""
    if len(used) != 2:
        return None
    third, second = used
    epsilon, at = up(third.epsilon, digits=4), at_delta(third.delta)
    if third.guarantee and second.guarantee:
        return (
            f"Which rho belongs to epsilon {epsilon} depends on the noise: {_rho(third)} for Gaussian noise that has "
            f"it{at} (Theorem 3), {_rho(second)} for geometric noise, whose epsilon is pure (Theorem 2)."
        )
    if second.guarantee:
        return (
            f"The noise is geometric and epsilon {up(second.epsilon, digits=4)} pure (delta 0), so rho is "
            f"{_rho(second)} (Theorem 2); rho {_rho(third)} is for Gaussian noise that has the same epsilon only{at} "
            f"(Theorem 3)."
        )
    return (
        f"Rho {_rho(third)} guarantees epsilon {epsilon}{at} (Theorem 3); a pure epsilon of "
        f"{up(second.epsilon, digits=4)} would give the same rho (Theorem 2), but is not guaranteed."
    )


def _rho(one: Conversion) -> str:
    """The rho of a conversion: one that gives an epsilon is rounded down, and one that follows from it up."""
    return down(one.rho, digits=4) if one.theorem == 3 else up(one.rho, digits=4)


def spent(loss: Fraction | None, delta: float | None, people: Sequence[str], limit: Limited | None) -> str:
    """What a programme costs a person (None: nothing), and what its limit (epsilon, delta) leaves."""
    bound = "" if limit is None else f" The limit is epsilon {text(limit[0])} at delta {text(limit[1])}"
    if loss is None:
        return f"Nothing has been spent.{bound}{'.' if bound else ''}"
    who = f"a person in {' and '.join(people)}" if people else "any person"
    said = f"All measurements together cost {who} at most epsilon {up(loss)}{at_delta(delta)}."
    if limit is None:
        return f"{said} No limit is set."
    left = limit[0] - loss
    some = f"so epsilon {down(left, digits=3)} is left"
    return f"{said}{bound}, {'and it is exceeded' if left < 0 else some if left else 'and nothing is left'}."


def beyond_limit(limit: Limited, one: Cost, loss: Fraction) -> str:
    """Why a measurement is refused: the limit of the ledger, and what the cost would be."""
    return (
        f"the limit of the ledger is epsilon {text(limit[0])} at delta {text(limit[1])}, and with this measurement "
        f"({cost(one)}) the cost would be epsilon {up(loss)}. No noise was drawn. Use a smaller budget, or let whoever "
        f"keeps the ledger raise the limit."
    )


def tighter(epsilon: float, delta: Fraction | float) -> str:
    """The cost of several releases from the distribution of their privacy loss."""
    return f"from privacy loss distributions: epsilon {up(epsilon, digits=4)}{at_delta(delta)}"


# -- Audits, comparisons, and what is no guarantee --------------------------------------------------------------------


def at_least(epsilon: float) -> str:
    """A lower bound on epsilon that an audit proved."""
    return f"at least {down(epsilon, digits=4)}"


def proven(epsilon: float | None) -> str:
    """The epsilon that is proven for the neighbours of an audit."""
    return "-" if epsilon is None else f"{up(epsilon, digits=4)}, for these neighbours"


def as_one_count(prior: Fraction, epsilon: float, rho: float, implied: float) -> str:
    """A comparison of a strategy's noise with that of a single count."""
    return (
        f"At its own budget, the strategy reveals as much to an intruder with prior {prior} as a single count: "
        f"geometric with epsilon {up(epsilon, digits=3)}, or discrete Gaussian with rho {up(rho, digits=3)} (implied "
        f"epsilon {up(implied, digits=3)}). This is a comparison, not a guarantee."
    )


def large_epsilon(epsilon: Fraction) -> str:
    """A caution about a large epsilon that was chosen by an average."""
    return (
        f"Caution: this bounds an average over the noise. The guarantee at epsilon {up(epsilon, digits=3)} allows an "
        f"intruder to go from 50% to {most_certain(float(epsilon))} sure. Use it as one limit among several."
    )


def learned_empirically(prior: Fraction, before: float | None, after: float | None, *, of_levels: bool) -> str:
    """What an intruder learned in simulated runs, as the epsilon of one count."""
    if of_levels:
        return (
            f"All levels together reveal as much to an intruder with prior {prior} as one count at epsilon "
            f"{_implied(before)}. This is an average before post-processing, not a guarantee."
        )
    return (
        f"About this target, an intruder with prior {prior} learns as much as from one count at epsilon "
        f"{_implied(before)} before post-processing, and {_implied(after)} or more after it. This is not a guarantee."
    )


NO_GUARANTEE = (
    "an average over the noise, for a target who has the characteristics: not a worst case, and no privacy guarantee"
)
NOT_A_BOUND = "It describes the errors of this release. It is not a bound on epsilon, and no guarantee follows from it."


def baseline(epsilon: str | None, neighbours: str | None, why: str, *, rows: int, seeded: bool) -> str:
    """What another method of protection guarantees, if anything."""
    if neighbours is None:
        return f"Not differentially private: {why}. For comparison only."
    seed = " This does not hold for those who know the seed." if seeded else ""
    several = f" That is for one record, and a person has up to {rows}: the loss of a person is {rows} times that."
    return (
        f"Differentially private with epsilon {epsilon} for {neighbours} neighbours.{several if rows > 1 else ''}{seed}"
    )


def _implied(value: float | None) -> str:
    """An estimate that bounds nothing, rounded to nearest."""
    return "beyond measure" if value is None or value != value else f"{value:.2f}"


def _four(value: float) -> str:
    return up(value, places=4)


def _sum(parts: Sequence[Fraction]) -> str:
    """A sum as it is written by hand; equal parts are counted."""
    times = {part: parts.count(part) for part in parts}
    written = " + ".join(f"{n} x {up(part)}" if n > 3 else " + ".join([up(part)] * n) for part, n in times.items())
    return written if len(parts) == 1 else f"{written} = {up(sum(parts, Fraction(0)))}"


def _counts_of(query: str) -> str:
    """The counts of a query.

    >>> _counts_of("total"), _counts_of("age * sex"), _counts_of("detailed")
    ('total', 'counts by age and sex', 'all counts')
    """
    if query == DETAILED:
        return "all counts"
    return query if query == TOTAL else f"counts by {listed(query.split(' * '))}"


def _together(values: Iterable[ExactCounts]) -> Iterable[ExactCounts]:
    """Counts with a single possible value; those of all units of a level are one item, whatever fixes them."""
    table: dict[tuple[str, str, bool, int], ExactCounts] = {}
    for number, one in enumerate(values):
        some = one.units == "all" and one.counts != "all"
        key = (one.query, one.level, one.true, -1 if some else number)
        table[key] = replace(one, counts=int(table[key].counts) + int(one.counts)) if key in table else one
    return table.values()


def _single_values(one: ExactCounts, size: int, root: str) -> str:
    """Counts with a single possible value, for some units of a level.

    >>> _single_values(ExactCounts(query="age", level="county", units=2, counts=3, source="bound", true=False), 9, "us")
    '3 of the counts by age of 2 of 9 units of county (fixed in the release only)'
    >>> _single_values(ExactCounts(query="detailed", level="us", units="all", counts=1, source="zero"), 1, "us")
    '1 of all counts of the us'
    """
    amount = "" if one.counts == "all" else f"{one.counts:,} of {'' if one.query in (TOTAL, DETAILED) else 'the '}"
    where = _places([one.level], root) if one.units == "all" else f"{one.units:,} of {size:,} units of {one.level}"
    return f"{amount}{_counts_of(one.query)} of {where}{'' if one.true else ' (fixed in the release only)'}"


def _places(levels: list[str], root: str) -> str:
    """The places of some levels, of which the first of all has one unit.

    >>> _places(["Italia", "comune"], "Italia"), _places(["state", "county"], "us")
    ('Italia and every comune', 'every state and county')
    """
    if levels[0] != root:
        return f"every {listed(levels)}"
    rest = [f"every {listed(levels[1:])}"] if levels[1:] else []
    return listed([the_whole(root), *rest])
