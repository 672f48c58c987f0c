"""Snapshots of a model's state, restored bit by bit: buffers, attributes, lazily built tables, modes, generators.

``Snapshot(...)`` covers everything reachable from the given modules and objects (attributes, lists, dicts, tensors, random
generators, a function's closure). ``changed`` names what differs; ``restore`` resets it. Tensors are restored in place, so
that references stay valid. Caches of functions (``lru_cache``) are cleared.
"""

from __future__ import annotations

import functools
import random
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

CLONED_PARAMETERS = 1 << 26
"""Up to this size (256 MiB in float32) weights are copied, too; those of larger models are tracked by version counter."""
COMPARED = 1 << 14
"""Tensors up to this size are compared bit by bit after every pass, since code can bypass the version counter."""
MOST_OBJECTS = 50_000
LARGE = 10_000
"""Larger containers count as data, not state."""

_PLAIN = (str, bytes, int, float, complex, bool, type(None), torch.dtype, torch.device, type, type(sys))
_SKIPPED = ("builtins", "torch", "inspect", "logging", "threading", "typing", "functools", "abc", "enum")


_OF_TORCH = {key for key, value in vars(nn.Module()).items() if isinstance(value, dict) and "hooks" in key}


class _Saved(NamedTuple):
    """One object and its saved state."""

    name: str
    differs: Callable[[], bool]
    restore: Callable[[], object]


class Snapshot:
    """The state of some objects at one moment."""

    def __init__(self, *things: Any) -> None:
        self._saved: list[_Saved] = []
        self._seen: set[int] = set()
        self._alive: list[Any] = []  # an id is only valid while its object is alive
        self._function_caches: dict[int, Any] = {}
        modules = [thing for thing in things if isinstance(thing, nn.Module)]
        weights = {id(p): p for module in modules for p in module.parameters()}
        self._clone_weights = sum(p.numel() for p in weights.values()) <= CLONED_PARAMETERS
        waiting: deque[tuple[str, Any]] = deque(("", thing) for thing in things)
        while waiting and len(self._seen) < MOST_OBJECTS:
            name, thing = waiting.popleft()
            if isinstance(thing, _PLAIN) or id(thing) in self._seen:
                continue
            self._seen.add(id(thing))
            self._alive.append(thing)
            waiting.extend(self._visit(name, thing))

    def changed(self) -> list[str]:
        """The names of what has changed."""
        return [saved.name or "itself" for saved in self._saved if saved.differs()]

    def restore(self) -> list[str]:
        """Restores everything; returns the names of what had changed."""
        found = [saved for saved in self._saved if saved.differs()]
        for saved in found:
            saved.restore()
        for cache in self._function_caches.values():
            if cache.cache_info().currsize:
                cache.cache_clear()
        return [saved.name or "itself" for saved in found]

    def _visit(self, name: str, thing: Any) -> Iterable[tuple[str, Any]]:
        if isinstance(thing, Tensor):
            self._tensor(name, thing)
            return ()
        if isinstance(thing, dict | list | deque | set | tuple) and len(thing) > LARGE:
            return ()
        if isinstance(thing, dict):
            self._dict(name, thing)
            return [(_joined(name, key), value) for key, value in list(thing.items())]
        if isinstance(thing, list | deque):
            self._sequence(name, thing)
            return [(_joined(name, i), value) for i, value in enumerate(list(thing))]
        if isinstance(thing, set):
            self._set(name, thing)
            return ()
        if isinstance(thing, tuple):
            return [(_joined(name, i), value) for i, value in enumerate(thing)]
        if isinstance(thing, torch.Generator | random.Random) or type(thing).__module__.startswith("numpy.random"):
            self._generator(name, thing)
            return ()
        if hasattr(thing, "cache_clear") and hasattr(thing, "cache_info"):
            self._function_caches[id(thing)] = thing
            return ()
        return self._object(name, thing)

    def _object(self, name: str, thing: Any) -> Iterator[tuple[str, Any]]:
        """Attributes; of a function its closure, its defaults and the globals it uses."""
        code = getattr(thing, "__code__", None)
        if code is not None:
            yield from self._function(name, thing, code)
            return
        if isinstance(thing, functools.partial):
            yield from ((name, thing.func), (name, thing.args), (name, thing.keywords))
            return
        if hasattr(thing, "__func__"):  # a bound method
            yield from ((name, thing.__func__), (name, thing.__self__))
            return
        foreign = type(thing).__module__.partition(".")[0] not in _SKIPPED
        if not (isinstance(thing, nn.Module) or foreign) or not isinstance(getattr(thing, "__dict__", None), dict):
            return
        attributes = vars(thing)
        self._dict(name, attributes)
        self._seen.add(id(attributes))
        if isinstance(thing, nn.Module):
            yield from self._shared(thing)
        for key, value in list(attributes.items()):
            if isinstance(thing, nn.Module) and key in _OF_TORCH:
                if value:  # hooks: their functions may hold state, the lists themselves are torch's
                    yield from ((_joined(name, key), hook) for hook in list(value.values()) if callable(hook))
            else:
                yield name if key in ("_parameters", "_buffers", "_modules") else _joined(name, key), value

    def _shared(self, module: nn.Module) -> Iterator[tuple[str, Any]]:
        """State of a module's class and file: containers, tensors, caching functions."""
        for base in type(module).__mro__:
            if base.__module__.partition(".")[0] in _SKIPPED or id(base) in self._seen:
                continue
            self._seen.add(id(base))
            for key, value in list(vars(base).items()):
                if isinstance(value, dict | list | set | Tensor) and not key.startswith("__"):
                    yield f"{base.__name__}.{key}", value
            home = sys.modules.get(base.__module__)
            for value in list(vars(home).values()) if home is not None else ():
                if hasattr(value, "cache_clear") and hasattr(value, "cache_info"):
                    self._function_caches[id(value)] = value

    def _function(self, name: str, function: Any, code: Any) -> Iterator[tuple[str, Any]]:
        cells = dict(zip(code.co_freevars, function.__closure__ or ()))
        for key, cell in cells.items():
            try:
                value = cell.cell_contents
            except ValueError:  # an empty cell
                continue
            self._slot(
                _joined(name, key), partial(getattr, cell, "cell_contents"), partial(setattr, cell, "cell_contents"), value
            )
            yield _joined(name, key), value
        names = function.__globals__
        for key in code.co_names:
            if key in names and not isinstance(names[key], type(sys) | type) and not callable(names[key]):
                value = names[key]
                self._slot(key, partial(names.get, key), partial(names.__setitem__, key), value)
                yield key, value
            elif key in names and (isinstance(names[key], nn.Module) or _same_file(names[key], function)):
                yield key, names[key]
        yield _joined(name, "defaults"), function.__defaults__ or ()
        if getattr(function, "__dict__", None):
            yield name, function.__dict__

    def _slot(self, name: str, get: Callable[[], Any], put: Callable[[Any], Any], value: Any) -> None:
        self._saved.append(_Saved(name, lambda: _differs(get(), value), lambda: put(value)))

    def _tensor(self, name: str, tensor: Tensor) -> None:
        if tensor.is_meta or type(tensor).__name__ == "UninitializedParameter":
            return
        if isinstance(tensor, nn.Parameter) and not self._clone_weights:
            return
        before, version, flag = tensor.detach().clone(), version_of(tensor), tensor.requires_grad
        small = tensor.numel() <= COMPARED

        def differs() -> bool:
            if tensor.dtype != before.dtype or tensor.shape != before.shape or tensor.requires_grad != flag:
                return True
            return (small or version_of(tensor) != version) and not _same_bits(tensor, before)

        def restore() -> None:
            with torch.no_grad():
                if tensor.dtype != before.dtype or tensor.shape != before.shape:
                    tensor.data = before.clone()
                else:
                    tensor.detach().copy_(before)
            if tensor.is_leaf and tensor.requires_grad != flag:
                tensor.requires_grad_(flag)

        self._saved.append(_Saved(name, differs, restore))

    def _dict(self, name: str, thing: dict[Any, Any]) -> None:
        before = dict(thing)

        def differs() -> bool:
            return len(thing) != len(before) or any(
                key not in thing or _differs(thing[key], value) for key, value in before.items()
            )

        def restore() -> None:
            if isinstance(thing, OrderedDict | defaultdict) or len(thing) != len(before) or any(k not in thing for k in before):
                thing.clear()
            thing.update(before)

        self._saved.append(_Saved(name, differs, restore))

    def _sequence(self, name: str, thing: Any) -> None:
        before = list(thing)

        def differs() -> bool:
            return len(thing) != len(before) or any(_differs(now, then) for now, then in zip(thing, before))

        def restore() -> None:
            thing.clear()
            thing.extend(before)

        self._saved.append(_Saved(name, differs, restore))

    def _set(self, name: str, thing: set[Any]) -> None:
        before = set(thing)

        def restore() -> None:
            thing.clear()
            thing.update(before)

        self._saved.append(_Saved(name, lambda: thing != before, restore))

    def _generator(self, name: str, thing: Any) -> None:
        """Random generators of torch, Python and numpy."""
        bits = getattr(thing, "bit_generator", None)
        if isinstance(thing, torch.Generator):
            get, put = thing.get_state, thing.set_state
        elif isinstance(thing, random.Random):
            get, put = thing.getstate, thing.setstate  # type: ignore[assignment]
        elif bits is not None:
            get, put = (lambda: bits.state), (lambda state: setattr(bits, "state", state))  # type: ignore[assignment,return-value]
        else:
            return
        before: Any = get()

        def differs() -> bool:
            now: Any = get()
            return not torch.equal(now, before) if isinstance(now, Tensor) else str(now) != str(before)

        self._saved.append(_Saved(name, differs, lambda: put(before)))


def _differs(now: Any, then: Any) -> bool:
    """Whether it is another object or, for plain values, another value."""
    return now is not then and not (type(now) is type(then) and isinstance(now, _PLAIN) and now == then)


def _same_file(helper: Any, function: Any) -> bool:
    """Whether this is a function of the same file."""
    return hasattr(helper, "__code__") and getattr(helper, "__module__", None) == function.__module__


def _joined(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def version_of(tensor: Tensor) -> int:
    """The tensor's version counter."""
    try:
        return int(tensor._version)
    except RuntimeError:  # made in inference mode: it has no version counter
        return -1


def _same_bits(tensor: Tensor, before: Tensor) -> bool:
    if torch.equal(tensor, before):
        return True
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return False
    return bool(((tensor == before) | ((tensor != tensor) & (before != before))).all())  # NaN where NaN was
