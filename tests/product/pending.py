"""Claims that are known to be false today, by kind: the page, what is claimed, and what the brute force says of it.

An entry leaves this list when the page is put right: a test fails as soon as one is no longer needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from comparing import Finding


@dataclass(frozen=True)
class Pending:
    why: str
    kind: str
    truth: str
    page: str = ""

    def covers(self, finding: Finding) -> bool:
        claim = finding.claim
        return bool(
            re.fullmatch(self.kind, f"{claim.kind} of {claim.scope}")
            and re.search(self.truth, finding.truth)
            and re.match(self.page, claim.source.page)
        )


PENDING = (
    Pending("that each person has one row is a condition, not a fact", "counted once of ", "it is a condition"),
    Pending(
        "losses are bounded for neighbours only, which agree on what is exact",
        "(epsilon|sure|average) of .*",
        "an exact count differs",
    ),
    Pending(
        "a report on a seeded release promises what holds without the seed",
        "(epsilon|sure|average) of .*",
        "knows the seed",
        "report",
    ),
    Pending(
        "who passes a filter shows in the number of people", "(epsilon|sure) of records", "passes the filter", "report"
    ),
    Pending(
        "two records of a person who is in the data are two steps apart", "epsilon of records", "too small", "report"
    ),
    Pending(
        "delta is not the chance that the loss is larger",
        "(sure|factor) of .*",
        "^more: the chance",
        "report|certificate",
    ),
    Pending("how sure someone can become is rounded to nearest", "sure of .*", "^more: epsilon is", "report"),
    Pending("averages are computed from the strategy, without only children", "average of .*", "^too ", "report"),
    Pending(
        "the sentence of a seeded release promises what holds without the seed", "epsilon of all", "knows the seed"
    ),
    Pending("the plan has the short words", "holds for of .*", "the certificate says in full", "plan"),
    Pending("zeros of the codebook are always compared", "not compared of constraint", "were compared"),
    Pending("zeros and bounds fix counts", "nothing exact of release", "single possible value"),
    Pending(
        "zeros, bounds and only children fix counts that are not named",
        "(nothing )?exact of release",
        "not in the list",
    ),
    Pending("rho is rounded to nearest", "rho of .*", "rounded down", "certificate|account|strategy"),
    Pending("epsilon from rho is rounded to nearest", "epsilon from rho of all", "rounded down", "account|strategy"),
    Pending("what is left is rounded to nearest", "left of ledger", "rounded up", "ledger"),
    Pending(
        "the largest standard deviation is rounded to nearest",
        "noise of of .*",
        "largest standard",
        "certificate|report",
    ),
    Pending("errors of an optimised spine are those of measured units", "expected of .*", "published units", "plan"),
    Pending(
        "errors of an optimised spine are those of measured units",
        "(typical error|margin) of .*",
        "exact in every",
        "certificate",
    ),
)
