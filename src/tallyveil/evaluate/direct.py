"""The direct estimate of flaxman2019 (section 2.3): the distributions of the error of one area on D and on D'.

The mechanism is run on both, and for every k the frequencies of {error = k} and of {error >= k} are compared. The error
is the released count minus the true count *of D* on both sides. The log ratio is a noisy lower bound on epsilon for
these neighbours. The paper moves a person, so two areas change, and events on one area alone cannot show more than half
of the loss of replace-one neighbours (erratum 10). The largest of many noisy ratios is biased upwards; for a valid
bound use :func:`tallyveil.evaluate.audit.audit.audit`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tallyveil._arrays import Floats, Integers
from tallyveil.errors import InputError
from tallyveil.evaluate.audit.binomial import lower, upper

if TYPE_CHECKING:
    import pandas as pd


def direct(outputs: ArrayLike, outputs_neighbour: ArrayLike, true: float, *, confidence: float = 0.95) -> pd.DataFrame:
    """Log ratios of the frequencies of the error on D and on D', with pointwise intervals.

    Parameters
    ----------
    outputs, outputs_neighbour
        Released count of one area in each run on D, and on D'.
    true
        True count of the area in D.
    confidence
        Confidence level of each single interval, which comes from Clopper-Pearson bounds on both probabilities.

    Returns
    -------
    A tidy frame: ``event`` (``"="`` or ``">="``), ``k``, ``p`` and ``q`` (frequencies on D and D'), ``log_ratio``
    (infinite where one of them is 0), ``low``, ``high``. Errors that are not whole are rounded to the nearest k for
    ``"="``, and compared as they are for ``">="``.

    Examples
    --------
    >>> direct([4, 5, 5, 6], [3, 4, 4, 5], 5).query("event == '>=' and k == 0")[["p", "q"]].values.tolist()
    [[0.75, 0.25]]
    """
    import pandas as pd

    errors = [np.asarray(values, dtype=np.float64) - true for values in (outputs, outputs_neighbour)]
    for values in errors:
        if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
            raise InputError("the outputs of one area are one finite number for each run. Give one or more runs.")
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1, such as 0.95. Got {confidence} instead.")
    nearest = [np.floor(values + 0.5).astype(np.int64) for values in errors]
    least, most = min(values.min() for values in nearest), max(values.max() for values in nearest)
    ks = np.unique(np.concatenate(nearest)) if most - least > 1_000_000 else np.arange(least, most + 1)
    frames = []
    for event in ("=", ">="):
        hits = [
            _equal(values, ks) if event == "=" else _at_least(exact, ks)
            for values, exact in zip(nearest, errors, strict=True)
        ]
        some = np.flatnonzero(hits[0] + hits[1])
        p_hits, q_hits = (count[some] for count in hits)
        p, q = p_hits / len(errors[0]), q_hits / len(errors[1])
        alpha = (1 - confidence) / 4  # two bounds on each of two probabilities
        with np.errstate(divide="ignore"):
            frame = {
                "event": event,
                "k": ks[some],
                "p": p,
                "q": q,
                "log_ratio": np.log(p) - np.log(q),
                "low": np.log(lower(p_hits, len(errors[0]), alpha)) - np.log(upper(q_hits, len(errors[1]), alpha)),
                "high": np.log(upper(p_hits, len(errors[0]), alpha)) - np.log(lower(q_hits, len(errors[1]), alpha)),
            }
        frames.append(pd.DataFrame(frame))
    return pd.concat(frames, ignore_index=True)


def _equal(values: Integers, ks: Integers) -> Integers:
    ordered = np.sort(values)
    return np.searchsorted(ordered, ks, side="right") - np.searchsorted(ordered, ks, side="left")


def _at_least(values: Floats, ks: Integers) -> Integers:
    return len(values) - np.searchsorted(np.sort(values), ks, side="left")
