"""YAML text -> plain Python values, bounded: hostile or mistaken files are refused with a sentence.

Stricter than YAML: no aliases (a small file could describe a huge or endless one), no tags, no duplicate keys, at most
1 MiB and 32 levels. More helpful than PyYAML: ``5e-4`` is a number.
"""

from __future__ import annotations

import importlib
import re
from contextlib import suppress
from functools import cache
from typing import Any, final

import yaml

from glassformer.foundation.errors import ConfigError

MAX_BYTES = 1 << 20
MAX_DEPTH = 32


class _Loader(yaml.SafeLoader):
    """SafeLoader that counts depth and refuses what a recipe never needs."""

    def __init__(self, text: str, source: str) -> None:
        super().__init__(text)
        self.source, self.depth = source, 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            self.refuse("aliases (*name) are not allowed; write the value out", event.start_mark)
        if getattr(event, "tag", None) is not None:
            self.refuse("tags (!name) are not allowed; write the value alone", event.start_mark)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.refuse(f"more than {MAX_DEPTH} levels of nesting", event.start_mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                self.refuse(f"the key {key!r} is not text", key_node.start_mark)
            if key in seen:
                self.refuse(f"the key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return dict(yaml.constructor.SafeConstructor.construct_mapping(self, node, deep))

    def refuse(self, rule: str, mark: Any) -> None:
        raise ConfigError(f"{self.source}, line {mark.line + 1}: {rule}.")


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


@cache
def _fast_loader() -> Any:
    """The same rules over libyaml, several times as fast; only there where PyYAML was built with it."""
    parser: Any = importlib.import_module("yaml.cyaml").CParser

    class Fast(parser, yaml.constructor.SafeConstructor, yaml.resolver.Resolver):  # type: ignore[misc]
        yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers
        construct_mapping, refuse, source = _Loader.construct_mapping, _Loader.refuse, "YAML"

        def __init__(self, text: str) -> None:
            parser.__init__(self, text)
            yaml.constructor.SafeConstructor.__init__(self)
            yaml.resolver.Resolver.__init__(self)

    return Fast


def _fast_value(text: str) -> Any:
    """For texts that can hold no alias, no tag and no deep nesting."""
    return _fast_loader()(text).get_single_data()


def _is_plain(text: str) -> bool:
    """No sign of an alias, an anchor or a tag, few brackets, no lists within lists on one line, little indentation."""
    if not text.isascii() or any(sign in text for sign in "*&!\t") or "- -" in text or "? " in text:
        return False
    return text.count("[") + text.count("{") < MAX_DEPTH // 2 and "\n" + " " * MAX_DEPTH not in text


def parse_yaml(text: str, source: str = "YAML") -> Any:
    """The value of one YAML document. ``source`` is how messages call it."""
    if len(text) > MAX_BYTES:
        raise ConfigError(f"{source} is larger than {MAX_BYTES >> 20} MiB; a recipe is a page of text.")
    if yaml.__with_libyaml__ and _is_plain(text):
        with suppress(Exception):  # the reader below says what is wrong, and where
            return _fast_value(text)
    loader = None
    try:
        loader = _Loader(text, source)
        return loader.get_single_data()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"{source}, line {line}: not valid YAML (a character that text may not hold).") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise ConfigError(f"{source}{where}: not valid YAML ({problem}).") from error
    except ValueError as error:  # a whole number with more digits than Python reads
        raise ConfigError(f"{source}: not valid YAML ({error}).") from error
    except RecursionError:
        raise ConfigError(f"{source}: more than {MAX_DEPTH} levels of nesting.") from None
    finally:
        if loader is not None:
            loader.dispose()


@final
class SectionReader:
    """``parse_yaml`` for many documents that share most of their sections: one that was read before is not read again.

    A section is a key at the margin with all that belongs to it. Values are shared between documents: nobody may change them.
    """

    MOST = 10_000
    """Sections that are kept."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def __call__(self, text: str, source: str = "YAML") -> Any:
        parts = _MARGIN.split(text)
        if parts[0] or not _is_plain(text):
            return parse_yaml(text, source)
        document: dict[str, Any] = {}
        for section in map("".join, zip(parts[1::2], parts[2::2])):
            found = self._read(section)
            if found is None or found.keys() & document.keys():
                return parse_yaml(text, source)  # which says what is wrong, and where
            document |= found
        return document

    def _read(self, section: str) -> dict[str, Any] | None:
        if section not in self._known:
            if len(self._known) >= self.MOST:
                self._known.clear()
            try:
                value = parse_yaml(section)
            except ConfigError:
                value = None
            self._known[section] = value if isinstance(value, dict) and len(value) == 1 else None
        found: dict[str, Any] | None = self._known[section]
        return found


_MARGIN = re.compile(r"^(\w+:(?=[ \n]))", re.MULTILINE)


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
