"""When does attention copy one value? When one key leads; the error falls with e to the lead."""

from __future__ import annotations

import math

import numpy as np

from glassformer.byhand.explorations.base import Findings, exploration, unit_rows, within
from glassformer.byhand.optimum import widest_margin
from glassformer.byhand.result import number
from glassformer.byhand.softmax import output_of, weights_of


@exploration("copying", "When does attention copy one value?")
def copying(*, n: int = 8, d: int = 16, beta: float = 20.0, seed: int = 0) -> Findings:
    """n random keys of length 1 and values; q = beta k_1, and the direction with the widest lead beside it."""
    within("n", n, 2, 512)
    within("d", d, 2, 512, "in one dimension there is no random direction")
    within("beta", beta, 0.1, 500)
    rng = np.random.default_rng(seed)
    keys, values = unit_rows(rng, n, d), rng.normal(size=(n, d))
    lead = float(1 - (keys[1:] @ keys[0]).max())
    margin = widest_margin(keys, [0])
    betas = np.linspace(0.0, beta, 41)
    along, best = betas[:, None] * keys[0], betas[:, None] * margin.direction
    weights, outputs = weights_of(along, keys), output_of(along, keys, values)
    error = np.linalg.norm(outputs - values[0], axis=1)
    best_error = np.linalg.norm(output_of(best, keys, values) - values[0], axis=1)
    reach = float(np.linalg.norm(values - values[0], axis=1).max())
    promise = (n - 1) * np.exp(-betas * lead) / (1 + (n - 1) * np.exp(-betas * lead)) * reach
    needed = math.log(99 * (n - 1)) / lead

    numbers = {
        "lead": lead,
        "widest_lead": margin.low,
        "beta": betas,
        "weight": weights[:, 0],
        "error": error,
        "promised_error": promise,
        "error_widest_lead": best_error,
        "beta_for_99_percent": needed,
    }
    paragraph = (
        f"{n} random keys of length 1 in {d} dimensions. Along k_1, key 1 leads the next one by {number(lead)} for every unit "
        f"of beta, so its weight is at least 1 / (1 + {n - 1} e^(-{number(lead)} beta)): beta = {number(needed)} is enough "
        f"for 99 %. At beta = {number(beta)} the weight is {number(float(weights[-1, 0]))} and the output is "
        f"{number(float(error[-1]))} away from v_1. On the logarithmic axis the error is a straight line: every further unit "
        f"of beta divides it by {number(math.exp(lead))}. k_1 itself is not the best direction; the one with the widest lead "
        f"({number(margin.low)}) leaves {number(float(best_error[-1]))}. If no direction lets key 1 lead, no beta helps: ask "
        "`select 1`."
    )
    return Findings(numbers, paragraph, {"weights": weights})
