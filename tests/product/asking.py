"""A claim of a page beside the brute force that it is compared with, and what is found."""

from __future__ import annotations

from dataclasses import dataclass

from claims import Claim
from truths import Releases, Truths


@dataclass(frozen=True)
class Finding:
    """A claim that is not true, and what is."""

    claim: Claim
    truth: str

    def __str__(self) -> str:
        return f"{self.claim}\n      {self.truth}"


@dataclass(frozen=True)
class Asked:
    """A claim, the releases it is about, and the brute force about them."""

    claim: Claim
    releases: Releases
    truths: Truths

    @property
    def value(self) -> float:
        return self.claim.value

    @property
    def digits(self) -> float:
        return self.claim.digits

    @property
    def scope(self) -> str:
        return self.claim.scope

    @property
    def delta(self) -> float:
        """The delta that a claim is about: pure noise has one only where an epsilon is said to hold at it."""
        if self.truths.pure:
            told = "at delta" in self.claim.source.text
            return float(self.truths.pages.case["delta"]) if told else 0.0
        return self.truths.folder.delta
