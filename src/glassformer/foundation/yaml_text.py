"""YAML text -> plain Python values, bounded: hostile or mistaken files are refused with a sentence.

Stricter than YAML: no aliases (a small file could describe a huge or endless one), no tags, no duplicate keys, at most
1 MiB and 32 levels. More helpful than PyYAML: ``5e-4`` is a number.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from glassformer.foundation.errors import ConfigError
from glassformer.foundation.files import open_file

MAX_BYTES = 1 << 20
MAX_DEPTH = 32


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml's is several times as fast
    """A safe loader that refuses keys that are not text or are given twice."""

    def __init__(self, text: str, source: str) -> None:
        super().__init__(text)
        self.source = source

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                self.refuse("key-not-text", f"the key {key!r} is not text", key_node.start_mark)
            if key in seen:
                self.refuse("key-twice", f"the key {key!r} is given twice; keep one", key_node.start_mark)
            seen.add(key)
        return dict(yaml.constructor.SafeConstructor.construct_mapping(self, node, deep))

    def refuse(self, reason: str, rule: str, mark: Any) -> None:
        raise ConfigError(f"{self.source}, line {mark.line + 1}: {rule}.", reason=reason)

    def refuse_unbounded(self) -> None:
        """Reads the events, which takes no memory, and refuses what could describe more than is written."""
        depth = 0
        while self.check_event():
            event = self.get_event()
            if isinstance(event, yaml.AliasEvent):
                self.refuse("yaml-alias", "aliases (*name) are not allowed; write the value out", event.start_mark)
            if getattr(event, "tag", None) is not None:
                self.refuse("yaml-tag", "tags (!name) are not allowed; write the value alone", event.start_mark)
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                self.refuse("yaml-too-deep", f"more than {MAX_DEPTH} levels of nesting", event.start_mark)


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern) for tag, pattern in resolvers if tag not in ("tag:yaml.org,2002:float", "tag:yaml.org,2002:timestamp")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?\d+)?$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$"),
    list("-+0123456789."),
)


def read_yaml(file: Path) -> Any:
    """The value of a file; of one that is too large no more is read than shows it."""
    with open_file(file) as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise _too_large(str(file))
    return parse_yaml(content.decode("utf-8"), str(file))


def _too_large(source: str) -> ConfigError:
    return ConfigError(f"{source} is larger than {MAX_BYTES >> 20} MiB; no recipe is that large.", reason="yaml-too-large")


def parse_yaml(text: str, source: str = "YAML") -> Any:
    """The value of one YAML document. ``source`` is how messages call it."""
    if len(text) > MAX_BYTES:
        raise _too_large(source)
    try:
        _Loader(text, source).refuse_unbounded()
        return _Loader(text, source).get_single_data()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(
            f"{source}, line {line}: not valid YAML (a character that text may not hold).", reason="invalid-yaml"
        ) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {min(mark.line + 1, len(text.splitlines()))}" if mark else ""  # libyaml may name one after the last
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise ConfigError(f"{source}{where}: not valid YAML ({problem}).", reason="invalid-yaml") from error
    except ValueError as error:  # a whole number with more digits than Python reads, or half of a surrogate pair
        raise ConfigError(f"{source}: not valid YAML ({error}).", reason="invalid-yaml") from error


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers  # text that our reader would take for a number gets quotes

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _quoted_where_needed(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """PyYAML writes rare line breaks bare, and a reader folds them into spaces; in double quotes they are escaped."""
    style = '"' if any(mark in text for mark in "\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _quoted_where_needed)


def dump_yaml(value: Any) -> str:
    """YAML text that ``parse_yaml`` reads back to the same value."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
