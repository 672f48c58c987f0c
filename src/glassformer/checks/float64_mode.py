"""Runs any torch code in float64 without modifying it, and captures the embedding lookups of the token ids.

``InDouble`` is a ``TorchFunctionMode``: every lower float is raised to float64, constants and casts included, so that
rounding (1e-16) and a leak of 1e-6 cannot be confused. It works on models, on functions and on weights in closures alike, and
changes no parameter. An operation without float64 support runs in the original precision, which ``eps`` reports.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.checks.state_snapshot import version_of

_RAISED = {
    torch.float32: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float16: torch.float64,
    torch.complex64: torch.complex128,
}
_CASTS = {Tensor.float: Tensor.double, Tensor.half: Tensor.double, Tensor.bfloat16: Tensor.double}
_LOOKUPS = {F.embedding: (0,), torch.embedding: (1,), F.one_hot: (0,), Tensor.__getitem__: (1,)}
"""Functions that look up vectors for ids, and which argument the ids are."""
_VALUE_GETTERS = {getattr(Tensor, name).__get__ for name in ("T", "mT", "H", "mH", "data", "real", "imag")}
_DTYPE = Tensor.dtype.__get__  # type: ignore[attr-defined]

STIRRED_STD = 0.1
JITTER = 2.0**-24
"""Half of what the last bit of a float32 is worth."""


def grouped_mm(first: Tensor, second: Tensor, *, offs: Tensor | None = None, bias: Any = None, out_dtype: Any = None) -> Tensor:
    """torch's ``grouped_mm`` of rows that belong to groups, whose kernels know no float64: rows before ``offs[g]`` times
    ``second[g]``."""
    assert offs is not None
    if first.ndim != 2 or second.ndim != 3 or bias is not None:
        raise NotImplementedError("this form of grouped_mm is not known in float64")
    ends = offs.tolist()
    parts = [first[start:end] @ second[group] for group, (start, end) in enumerate(zip([0, *ends], ends))]
    rest = first.new_zeros(first.shape[0] - (ends[-1] if ends else 0), second.shape[2])
    return torch.cat([*parts, rest])


_GROUPED = {
    function for module in (F, torch) for name in ("grouped_mm", "_grouped_mm") if (function := getattr(module, name, None))
}


class InDouble(TorchFunctionMode):
    """Inside the ``with``, torch computes in float64.

    ``ids_BT``: if given, the vectors looked up for exactly these ids are stored in ``vectors`` as leaves, for gradients with
    respect to the tokens. ``randomised``: parameters that are all zero (zero-initialised gates and projections), and zero
    entries of trained parameters, are replaced by small random numbers, so that leaks behind them show before training.
    ``jittered``: buffers in a lower precision get their last bit changed, to measure the effect of their rounding. ``eps``
    is afterwards the rounding of the lowest precision that any operation still used.
    """

    def __init__(self, ids_BT: Tensor | None = None, *, randomised: bool = False, jittered: bool = False) -> None:
        super().__init__()
        self.ids_BT, self.randomised, self.jittered = ids_BT, randomised, jittered
        self.vectors: list[Tensor] = []
        self.eps = torch.finfo(torch.float64).eps
        self._raised: dict[int, tuple[Tensor, int, Tensor]] = {}

    def __enter__(self) -> InDouble:
        self._default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch.set_default_dtype(self._default)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func == _DTYPE:  # a new object at every access, so never the same one
            return _RAISED.get(func(*args), func(*args))
        if getattr(func, "__name__", "") in ("__get__", "__set__") and func not in _VALUE_GETTERS:
            return func(*args, **kwargs)
        func = grouped_mm if func in _GROUPED else _CASTS.get(func, func)
        in_place = 1 if _writes_in_place(func) else 0
        asked = args, kwargs
        args = (*args[:in_place], *(self._to_float64(value) for value in args[in_place:]))
        kwargs = {name: value if name == "out" else self._to_float64(value) for name, value in kwargs.items()}
        try:
            result = func(*args, **kwargs)
        except (RuntimeError, NotImplementedError) as error:
            if in_place or not _about_precision(error):
                raise
            result = func(*(_uncast(value) for value in asked[0]), **{key: _uncast(v) for key, v in asked[1].items()})
        if isinstance(result, Tensor) and result.dtype in _RAISED and result.dtype.is_floating_point and not in_place:
            self.eps = max(self.eps, torch.finfo(result.dtype).eps)
        if func in _LOOKUPS and any(self.matches_ids(args[at], result) for at in _LOOKUPS[func] if at < len(args)):
            return self.capture(result)
        return result

    def capture(self, vectors: Tensor) -> Tensor:
        """The same vectors as a leaf tensor."""
        leaf = vectors.detach().double().requires_grad_()
        self.vectors.append(leaf)
        with torch.enable_grad():
            return leaf.clone()  # which code may write into, as it may not into a leaf

    def _to_float64(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            if value.dtype not in _RAISED:
                return value
            if isinstance(value, nn.Parameter):
                return self._parameter_in_float64(value)
            raised = value.to(_RAISED[value.dtype])
            return raised * (1 + JITTER * _noise(raised)) if self.jittered and raised.is_floating_point() else raised
        if isinstance(value, torch.dtype):
            return _RAISED.get(value, value)
        if type(value) in (tuple, list):
            return type(value)(self._to_float64(part) for part in value)
        return value

    def _parameter_in_float64(self, parameter: nn.Parameter) -> Tensor:
        """Cached per parameter and version; without gradient, since only token gradients are needed."""
        known, version = self._raised.get(id(parameter)), version_of(parameter)
        if known is None or known[1] != version:
            raised = parameter.detach().to(_RAISED[parameter.dtype])
            if self.randomised and (parameter.requires_grad or not raised.any()):
                raised = torch.where(raised == 0, STIRRED_STD * _noise(raised).to(raised), raised)
            known = self._raised[id(parameter)] = (parameter, version, raised)
        return known[2]

    def matches_ids(self, value: Any, looked_up: Any) -> bool:
        """Whether these are exactly the ids of interest, and the lookup returned a vector for each."""
        return (
            self.ids_BT is not None
            and isinstance(value, Tensor)
            and isinstance(looked_up, Tensor)
            and looked_up.ndim > value.ndim
            and looked_up.shape[: value.ndim] == value.shape
            and value.shape == self.ids_BT.shape
            and not value.is_floating_point()
            and torch.equal(value.to(self.ids_BT), self.ids_BT)
        )


def _noise(like: Tensor) -> Tensor:
    """Normal numbers, the same for every tensor of this size."""
    generator = torch.Generator().manual_seed(like.numel())
    return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like.device)


def _about_precision(error: Exception) -> bool:
    said = str(error).lower()
    return any(word in said for word in ("double", "float64", "dtype", "scalar type", "not implemented for"))


def _uncast(value: Any) -> Any:
    """For an operation without float64 support."""
    return value.float() if isinstance(value, Tensor) and value.dtype == torch.float64 else value


def _writes_in_place(func: Any) -> bool:
    name = getattr(func, "__name__", "")
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
