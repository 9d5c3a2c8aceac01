"""The evidence against a group of people who are measured in the same way: which counts reveal something, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy.special import expit

from tallyveil._arrays import Floats
from tallyveil.privacy.budget import Number
from tallyveil.privacy.strategy import Strategy
from tallyveil.risk.scan.groups import Group
from tallyveil.risk.target.attacks import Attack, noises_of
from tallyveil.risk.target.evidence import CountNoise, Evidence
from tallyveil.risk.target.intruder import Exposure, Intruder
from tallyveil.risk.target.several import Several, SeveralExposure
from tallyveil.risk.target.several_counts import SeveralCounts, exposure_of

POSTERIOR_BINS = np.linspace(0, 1, 21)


@final
@dataclass(frozen=True, kw_only=True)
class GroupEvidence:
    """The counts that reveal something about the people of a group.

    Attributes
    ----------
    counts, noises
        The level and query of each of these counts, and the noise of each row in which the hypotheses differ.
    certain
        Whether exact counts alone decide the attack.
    drawn
        Whether the noise that was drawn is known and used.
    unknown, share
        The number of people besides the target whom the intruder does not know, and the probability that one of them
        is counted like the target; None for the prior.
    """

    counts: tuple[tuple[str, str], ...]
    noises: tuple[CountNoise, ...]
    certain: bool
    drawn: bool
    unknown: int = 0
    share: Number | None = None

    @classmethod
    def of(cls, group: Group, strategy: Strategy, attack: Attack, saved: Mapping[str, Sequence[str]]) -> GroupEvidence:
        """The evidence against a group: the saved counts, or all counts where none was saved."""
        counts: list[tuple[str, str]] = []
        noises: list[CountNoise] = []
        every = group.informative_counts(strategy, attack.queries)
        known = [(level, query) for level, query in every if query in saved.get(level, ())]
        for level, query in known or every:
            share = dict(group.measured)[level]
            row_noises = noises_of(
                strategy, level, attack=attack.kind, attribute=attack.attribute, queries=[query], level_share=share
            )
            if row_noises:
                counts.append((level, query))
                noises += row_noises
        certain = group.certain(strategy, attack)
        drawn = not certain and bool(known)
        return cls(counts=tuple(counts), noises=tuple(noises), certain=certain, drawn=drawn)

    @cached_property
    def evidence(self) -> Evidence | None:
        """The evidence of the noisy counts; None where they cannot change anything."""
        return Evidence(noises=self.noises) if self.noises and not self.certain else None

    def expected(self, intruder: Intruder) -> tuple[float, float, float]:
        """Posterior, right decision and tie, averaged over the noise."""
        if self.evidence is None:
            return self._without_noise(intruder)
        exposed = self._exposure(intruder)
        return exposed.marginal_posterior, exposed.right_decision, exposed.tie

    def given_ratios(self, intruder: Intruder, logs: Floats) -> Floats:
        """Posterior, right decision and tie, given the log likelihood ratios of the noise that was drawn."""
        if self.evidence is None:
            return np.repeat(np.array(self._without_noise(intruder))[:, None], len(logs), axis=1)
        exposed = Exposure(intruder=intruder, evidence=self.evidence)
        claims, tie = exposed.decided(logs)
        return np.stack([expit(intruder.log_prior_odds + logs), claims.astype(float), tie.astype(float)])

    def posterior_histogram(self, intruder: Intruder) -> Floats:
        """Probability of a posterior in each interval of ``POSTERIOR_BINS``."""
        if self.evidence is None:
            return np.histogram([self._without_noise(intruder)[0]], POSTERIOR_BINS)[0].astype(float)
        exposed = self._exposure(intruder)
        if isinstance(exposed, Exposure):
            posterior, chances = expit(intruder.log_prior_odds + self.evidence.logs()), self.evidence.probabilities
        else:
            posterior, chances = exposed.posteriors()
        return np.histogram(posterior, POSTERIOR_BINS, weights=chances)[0]

    def _exposure(self, intruder: Intruder) -> Exposure | SeveralExposure | SeveralCounts:
        return exposure_of(Several(intruder=intruder, others=self.unknown, share=self.share), self.noises)

    def _without_noise(self, intruder: Intruder) -> tuple[float, float, float]:
        if self.certain:
            return 1.0, 1.0, 0.0
        return float(intruder.prior), float(intruder.odds_needed < 1), float(intruder.odds_needed == 1)


NO_ALTERNATIVE = GroupEvidence(counts=(), noises=(), certain=True, drawn=False)  # people who can be nothing else
