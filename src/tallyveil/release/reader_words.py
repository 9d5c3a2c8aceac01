"""What a certificate says, in words for readers who are not specialists. Everything follows from its declared part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

_UNCOVERED = {
    "units from data": "Which places are listed: the list was made from the data, so it can show that somebody was "
    "counted there.",
    "labels from data": "Which groups are listed: the list was made from the data, so it can show that somebody "
    "belongs to one.",
    "filtered": "How many people pass the filter: their number is exact, so it can show whether somebody does.",
}
_STAMPS = {
    "seeded": "This is a trial with a known seed, which can remove the noise: not for publication.",
    "units from data": "The list of places was made from the data and is not protected.",
    "labels from data": "The list of groups was made from the data and is not protected.",
    "filtered": "The number of people who pass the filter is exact and is not protected.",
}
NINE_IN_TEN = 1.645  # standard deviations that nine in ten errors are within (normal; 1.63 for one geometric noise)


def title_of(declared: Mapping[str, Any], attributes: Iterable[str]) -> str:
    """The title of a release, or one made of what was counted."""
    finest, names = declared["budget"]["levels"][-1]["level"], list(attributes)
    by = f" by {listed(names)}" if names else ""
    return str(declared.get("title") or f"Counts of people{by}, down to every {finest}")


def exact_in_words(declared: Mapping[str, Any]) -> list[str]:
    """What was published exactly, and so lies outside the promise."""
    root = declared["budget"]["levels"][0]["level"]
    by_query: dict[str, list[str]] = {}
    for one in declared["budget"]["exact"]:
        if (one["query"], one["level"]) != ("total", root) or not declared["guarantee"]["total"]:
            by_query.setdefault(one["query"], []).append(one["level"])
    words = ["the number of people in all"] if declared["guarantee"]["total"] else []
    words += [f"{_counts_of(query)} of {_places(levels, root)}" for query, levels in by_query.items()]
    words += [_exact_counts_in_words(one, declared["spine"]) for one in declared.get("exact_values", ())]
    fixed = [one["words"] for one in declared["constraints"] if one["source"] == "truth"]
    said = {f"{query} is exact for every {level}" for query, levels in by_query.items() for level in levels}
    of_root = f"is exact for every {root}"
    return words + [one.replace(of_root, f"is exact for {the_whole(root)}") for one in fixed if one not in said]


def _exact_counts_in_words(one: Mapping[str, Any], sizes: Mapping[str, int]) -> str:
    """Counts with a single possible value, for some units of a level.

    >>> some = {"query": "age", "level": "county", "units": 2, "counts": 3, "source": "bound", "true": False}
    >>> _exact_counts_in_words(some, {"county": 9})
    '3 of the counts by age of 2 of 9 units of county (fixed in the release only)'
    """
    amount = "" if one["counts"] == "all" else f"{one['counts']:,} of the "
    where = f"every {one['level']}" if one["units"] == "all" else ""
    where = where or f"{one['units']:,} of {sizes[one['level']]:,} units of {one['level']}"
    return f"{amount}{_counts_of(one['query'])} of {where}{'' if one['true'] else ' (fixed in the release only)'}"


def _places(levels: list[str], root: str) -> str:
    """The places of some levels, of which the first of all has one unit.

    >>> _places(["Italia", "comune"], "Italia"), _places(["state", "county"], "us")
    ('Italia and every comune', 'every state and county')
    """
    if levels[0] != root:
        return f"every {listed(levels)}"
    rest = [f"every {listed(levels[1:])}"] if levels[1:] else []
    return listed([the_whole(root), *rest])


def the_whole(level: str) -> str:
    """The one unit of the first level: its name, with an article unless it is a proper name.

    >>> the_whole("Italia"), the_whole("nation"), the_whole("all")
    ('Italia', 'the nation', 'the whole')
    """
    if level == "all":
        return "the whole"
    return level if level[:1].isupper() else f"the {level.replace('_', ' ')}"


def promise_in_words(guarantee: Mapping[str, Any]) -> str:
    """The kind of the guarantee and whom it is for; figures have few digits, and certificate.json has all of them.

    >>> promise_in_words({"accountant": "zcdp", "rho": 2.5562, "words": "... rho = 293764/114921, for neighbours that"})
    'zero-concentrated differential privacy with rho 2.56, for neighbours that'
    """
    if guarantee["accountant"] == "pure":
        kind = f"pure differential privacy with epsilon {guarantee['epsilon']:.3g}"
    elif guarantee["accountant"] == "zcdp":
        kind = f"zero-concentrated differential privacy with rho {guarantee['rho']:.3g}"
    else:
        kind = "differential privacy with this epsilon and delta, from the distribution of the privacy loss"
    return f"{kind}, {covered(guarantee['words'])}"


def covered(words: str) -> str:
    """The neighbours that a guarantee covers, out of its words.

    >>> covered("1-differential privacy (pure), for all neighbours")
    'for all neighbours'
    """
    return f"for {words.rpartition(', for ')[2]}"


def uncovered(stamp: str) -> str:
    """What a stamp means for readers, besides the seed: what the promise does not cover.

    >>> uncovered("units from data: not covered by the guarantee")
    'Which places are listed: the list was made from the data, so it can show that somebody was counted there.'
    """
    return next((words for start, words in _UNCOVERED.items() if stamp.startswith(start)), f"As stamped: {stamp}.")


def stamp_in_words(stamp: str) -> str:
    """A stamp as readers understand it.

    >>> stamp_in_words("units from data: not covered by the guarantee")
    'The list of places was made from the data and is not protected.'
    """
    return next((words for start, words in _STAMPS.items() if stamp.startswith(start)), stamp)


def _counts_of(query: str) -> str:
    """The counts of a query.

    >>> _counts_of("total"), _counts_of("age * sex"), _counts_of("detailed")
    ('total', 'counts by age and sex', 'all counts')
    """
    if query == "detailed":
        return "all counts"
    return query if query == "total" else f"counts by {listed(query.split(' * '))}"


NO_PROMISE = math.log(1e12)  # an epsilon above which a guarantee promises nothing: an observer can become certain


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


def chance(delta: float) -> str:
    """A small probability in words.

    >>> chance(1e-10), chance(1e-6), chance(0.003)
    ('1 in 10 billion', '1 in 1 million', '1 in 333')
    """
    odds = math.floor(1 / delta * (1 + 1e-12))
    for size, word in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if odds >= size:
            return f"1 in {odds // size:,} {word}"
    return f"1 in {odds:,}"


def listed(words: Iterable[str]) -> str:
    """Words in a list.

    >>> listed(["age"]), listed(["age", "sex", "race"])
    ('age', 'age, sex and race')
    """
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
