"""The one array type of attention by hand: float64, because paper has no rounding worth speaking of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
