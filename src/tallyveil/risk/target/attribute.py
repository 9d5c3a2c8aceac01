r"""The value of an unknown attribute of the target (kazan2022, section 5.1, Eq. 37), for any number of values.

The intruder knows everything about a unit but one attribute of the target, so the target adds 1 to one of several
cells, each released with its own noise. With :math:`d_v = x_v^* - k_v`, and with :math:`l_v(d_v)` the log likelihood
ratio of cell v alone (Eq. 11 and 12: :math:`(2 d_v - 1) / 2 s_v`, or plus or minus :math:`z_v`), the other cells cancel
and

.. math:: P[v \mid x^*] \propto p_v e^{l_v(d_v)}

Eq. 37 puts p_v on the other vector than its text. Here, as in the text, it is the probability of v (erratum 11).

The average of the posterior over the released counts is an expectation of A / (A + B_1 + B_2 + ...) with independent
terms. Since :math:`1/c = \int_0^\infty e^{-tc} dt`, it is a single integral for any number of values:

.. math:: \int_{-\infty}^\infty E[A e^u e^{-A e^u}] \prod_w E[e^{-B_w e^u}] \, du

With steps h of u, the sum has a relative error of :math:`2 |\Gamma(1 + 2 \pi i / h)|` in the term of each outcome
(Poisson summation), which is below 2e-16 at h = 1/4.

Decisions compare :math:`p_v e^{l_v}`. Exponents and priors are fractions, so two values are equal only if both the
priors and the exponents are (Lindemann). All other comparisons use ball arithmetic where floats are too close.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax

from tallyveil._arrays import Bools, Floats
from tallyveil._frozen import Frozen
from tallyveil.errors import InputError
from tallyveil.privacy.budget import Number, exact
from tallyveil.privacy.noise import DiscreteGaussian
from tallyveil.privacy.thresholds import floor_of_log
from tallyveil.risk.target.evidence import CountNoise
from tallyveil.risk.target.intruder import Intruder, log_ratio

_STEP = 0.25  # h above
_LOW, _HIGH = 40, 4  # terms outside are below e^-40 and exp(-e^4)
_Exponents = tuple[list[int], int]  # fractions: numerators, and their common denominator
_CUT = 1e-18  # probability of outcomes left out, relative to the prior


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Attribute:
    """An intruder who knows everything about the people of a unit but one attribute of one of them.

    Attributes
    ----------
    priors
        Their probability of each of two or more values, as fractions that sum to 1.
    noises
        The noise of each value's cell, or one for all.
    known
        The number of others in each cell, or one number for all.

    Examples
    --------
    >>> noise = DiscreteGaussian(variance="5.04")
    >>> ethnicity = Attribute(priors={"hispanic": "1/5", "not hispanic": "4/5"}, noises=noise)
    >>> posterior = ethnicity.posterior({"hispanic": 2, "not hispanic": 0})
    >>> round(float(posterior["hispanic"]), 3), round(ethnicity.risk("hispanic"), 3)
    (0.271, 1.253)
    """

    priors: Mapping[str, Number]
    noises: CountNoise | Mapping[str, CountNoise]
    known: int | Mapping[str, int] = 0

    def __post_init__(self) -> None:
        priors = Frozen({value: exact(prior, f'the prior of "{value}"') for value, prior in self.priors.items()})
        if len(priors) < 2:
            raise InputError(f"an unknown attribute must have two values or more. Got {', '.join(priors) or 'none'}.")
        if (total := sum(priors.values())) != 1:
            words = ", ".join(f"{value}={prior}" for value, prior in priors.items())
            raise InputError(f'priors sum to {total}, not 1 ({words}). Write fractions as text, such as "1/3".')
        object.__setattr__(self, "priors", priors)
        object.__setattr__(self, "noises", _by_value(self.noises, priors, "noises"))
        object.__setattr__(self, "known", _by_value(self.known, priors, "known"))
        for value in priors:  # refuses what is not noise or not a count
            Intruder(prior="1/2", known=self._known[value]).against(self._noises[value])

    def posterior(self, released: Mapping[str, ArrayLike] | ArrayLike) -> dict[str, Floats]:
        """Probability of each value given the released counts, by value or as an array with values on its last axis."""
        return {value: np.exp(logs) for value, logs in self.log_posterior(released).items()}

    def log_posterior(self, released: Mapping[str, ArrayLike] | ArrayLike) -> dict[str, Floats]:
        """Logarithm of the same, which is exact where a probability itself would round to 0."""
        if not isinstance(released, Mapping):
            counts = np.asarray(released)
            if counts.ndim == 0 or counts.shape[-1] != len(self.priors):
                raise InputError(
                    f"the last axis must have a count for each of {', '.join(self.priors)}. Got {released!r}."
                )
            released = {value: counts[..., place] for place, value in enumerate(self.priors)}
        released = _by_value(released, self.priors, "released")
        logs = [self._log_weight(value, released[value]) for value in self.priors]
        return dict(zip(self.priors, log_softmax(np.stack(np.broadcast_arrays(*logs)), axis=0), strict=True))

    def marginal_posterior(self, value: str) -> float:
        """Posterior of the true value, averaged over the released counts (Eq. 14)."""
        prior, noise = self._prior(value), self._noises[value]
        d, true_mass = _outcomes(noise, 1, _CUT * float(prior))
        true_logs = math.log(prior) + log_ratio(noise, d)
        others = []
        for (other, its_noise), times in self._others(value).items():
            d, mass = _outcomes(its_noise, 0, _CUT * float(prior))
            others.append((math.log(other) + log_ratio(its_noise, d), mass, times))
        every = [true_logs, *(logs for logs, _, _ in others)]
        top = max(float(logs.max()) for logs in every)  # exponents are relative to this, so that none overflows
        last = _HIGH - max(float(logs.min()) for logs in every) + top
        total = 0.0
        for u in np.arange(-_LOW - math.log(len(self.priors)), last, _STEP) - top:
            y = np.minimum(u + true_logs, 10)  # exp(-e^10) is 0
            term = float(np.sum(true_mass * np.exp(y - np.exp(y))))
            for logs, mass, times in others:
                term *= float(np.sum(mass * np.exp(-np.exp(np.minimum(u + logs, 10))))) ** times
            total += term
        return min(_STEP * total, 1.0)

    def risk(self, value: str) -> float:
        """Average posterior of the true value over its prior, R (Eq. 15)."""
        return self.marginal_posterior(value) / float(self._prior(value))

    def right_decision(self, value: str) -> float:
        """Probability that the true value is strictly the most probable one (Eq. 18)."""
        return self._decision(value)[0]

    def tie(self, value: str) -> float:
        """Probability that the true value ties with another for the most probable one; not a right decision."""
        return self._decision(value)[1]

    def _decision(self, value: str) -> tuple[float, float]:
        """Right decision and tie: sums over the released counts of the true cell, with tails of the other cells."""
        prior, noise = self._prior(value), self._noises[value]
        d, mass = _outcomes(noise, 1, _CUT * float(prior))
        exponents = _exponents(noise, d)
        largest, none_more = np.ones(len(d)), np.ones(len(d))
        for (other, its_noise), times in self._others(value).items():
            less, equal = _compared(prior / other, exponents, its_noise)
            largest *= less**times
            none_more *= (less + equal) ** times
        right = min(float(np.sum(mass * largest)), 1.0)
        return right, float(np.sum(mass * (none_more - largest)))

    def _log_weight(self, value: str, released: ArrayLike) -> Floats:
        """Logarithm of the prior times the likelihood ratio of the value's cell."""
        counts = np.asarray(released, dtype=np.float64)
        if not (counts == np.floor(counts)).all():
            raise InputError(f'a released noisy count must be a whole number. Got {released!r} for "{value}" instead.')
        return math.log(self._prior(value)) + log_ratio(self._noises[value], counts - self._known[value])

    def _prior(self, value: str) -> Fraction:
        if value not in self.priors:
            raise InputError(f'"{value}" is not one of the values {", ".join(self.priors)}.')
        return Fraction(self.priors[value])

    @property
    def _noises(self) -> Frozen[str, CountNoise]:
        return _by_value(self.noises, self.priors, "noises")

    @property
    def _known(self) -> Frozen[str, int]:
        return _by_value(self.known, self.priors, "known")

    def _others(self, value: str) -> Counter[tuple[Fraction, CountNoise]]:
        """Prior and noise of the other values. Averages do not depend on known counts, which only shift."""
        return Counter((self._prior(other), self._noises[other]) for other in self.priors if other != value)


def _by_value(given: Any, values: Mapping[str, Any], name: str) -> Frozen[str, Any]:
    """One entry for each value."""
    if not isinstance(given, Mapping):
        return Frozen(dict.fromkeys(values, given))
    if given.keys() != values.keys():
        raise InputError(f"{name} needs one entry for each of {', '.join(values)}. Got {', '.join(given) or 'none'}.")
    return Frozen({value: given[value] for value in values})


def _outcomes(noise: CountNoise, shift: int, cut: float) -> tuple[Floats, Floats]:
    """Values of d and their probabilities, for a cell with ``shift`` more people than are known.

    Geometric counts reveal only whether d is 1 or more, so 0 and 1 stand for all values.
    """
    cut = max(cut, 1e-300)
    if isinstance(noise, DiscreteGaussian):
        reach = int(-noise.quantile(cut / 2))
        eta = np.arange(-reach, reach + 1, dtype=np.float64)
        return shift + eta, noise.pmf(eta)
    d, mass = np.arange(2.0), np.array([float(noise.cdf(-shift)), float(noise.tail(1 - shift))])
    return d[mass > cut], mass[mass > cut]


def _exponents(noise: CountNoise, d: Floats) -> _Exponents:
    """The log likelihood ratios l(d), exactly."""
    if isinstance(noise, DiscreteGaussian):
        s = noise.variance
        return [(2 * int(at) - 1) * s.denominator for at in d], 2 * s.numerator
    return [noise.z.numerator if at >= 1 else -noise.z.numerator for at in d], noise.z.denominator


def _compared(odds: Fraction, exponents: _Exponents, noise: CountNoise) -> tuple[Floats, Floats]:
    """For each exponent x: P[l < log(odds) + x] and P[l = log(odds) + x] for a cell without the target."""
    if isinstance(noise, DiscreteGaussian):  # (2 d - 1) / 2 s below it: d below s (log odds + x) + 1/2
        place, whole = _floors(odds, exponents, times=noise.variance, plus=Fraction(1, 2))
        return noise.cdf(place - whole), np.where(whole, noise.pmf(place), 0.0)
    less, equal = np.zeros(len(exponents[0])), np.zeros(len(exponents[0]))
    for its, probability in ((-noise.z, float(noise.cdf(0))), (noise.z, float(noise.tail(1)))):
        place, whole = _floors(odds, exponents, times=Fraction(1), plus=-its)
        same = whole & (place == 0)
        less += probability * ((place >= 0) & ~same)
        equal += probability * same
    return less, equal


def _floors(value: Fraction, exponents: _Exponents, *, times: Fraction, plus: Fraction) -> tuple[Floats, Bools]:
    """Floors of times (log(value) + x) + plus, and whether that is an integer; in balls where floats cannot tell."""
    whole = exponents[1] * times.denominator * plus.denominator
    slope, start = times.numerator * plus.denominator, plus.numerator * times.denominator * exponents[1]
    parts = [slope * x + start for x in exponents[0]]  # times x + plus is this over the whole
    if value == 1:
        return np.array([float(part // whole) for part in parts]), np.array([part % whole == 0 for part in parts])
    log, adds = float(times) * math.log(value), np.array([part / whole for part in parts])
    floors = np.floor(log + adds)
    unsure = 1e-12 * (1 + float(times) + abs(log) + np.abs(adds))  # thousands of rounding errors
    for near in np.flatnonzero(np.abs(log + adds - np.rint(log + adds)) < unsure):
        floors[near] = floor_of_log(value, times=times, plus=Fraction(parts[near], whole))
    return floors, np.zeros(len(parts), dtype=np.bool_)  # the logarithm of a fraction is not a fraction
