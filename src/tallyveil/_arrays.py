"""Names for the arrays that signatures speak of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
AnyIntegers = NDArray[np.integer]  # of any width: tables are kept as narrow as their values allow
