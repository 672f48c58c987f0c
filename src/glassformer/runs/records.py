"""The metrics log of a run as JSON lines, appended while it trains. Imports no torch.

Non-finite numbers are written as the strings "nan", "inf" and "-inf" (JSON has none) and read back as floats. An incomplete
line, left by a killed process, is skipped.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, final

from glassformer.foundation.files import read_json_lines, room_on_disk, write_atomically

BLOCK = 1 << 16
"""Bytes that are read at once from the end of a file."""

FIRST = 1 << 12
"""Bytes that are read first: what is searched for is mostly in the last lines."""

NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
OLD_KEYS = {"gradient": "grad_norm"}
"""Keys of earlier versions and their present names; old runs are read by the present names."""


@final
class MetricsLog:
    """The metrics of one run: one line per record, each with its ``step``."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def append(self, record: Mapping[str, Any]) -> None:
        line = json.dumps({key: _writable(value) for key, value in record.items()}, ensure_ascii=False, allow_nan=False)
        with room_on_disk(self.file), self.file.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")

    def sync(self) -> None:
        """Syncs the file to disk; called before each checkpoint."""
        if self.file.exists():
            with room_on_disk(self.file), self.file.open("rb+") as stream:
                os.fsync(stream.fileno())

    def read(self) -> list[dict[str, Any]]:
        return list(self._records())

    def last(self, key: str, *, most: int | None = None) -> Any:
        """The last value of ``key``, read from the end of the file; None where the last ``most`` bytes have none."""
        if not self.file.is_file():
            return None
        with self.file.open("rb") as stream:
            end, torn, read = stream.seek(0, os.SEEK_END), b"", 0
            while end > 0 and (most is None or read < most):
                size = min(BLOCK if read else FIRST, end)
                end, read = end - size, read + size
                stream.seek(end)
                lines = (stream.read(size) + torn).split(b"\n")
                torn = lines.pop(0) if end > 0 else b""
                for line in reversed(lines):
                    record = {OLD_KEYS.get(old, old): value for old, value in _record(line).items()}
                    if key in record:
                        return _readable(record[key])
        return None

    def cut_after(self, step: int) -> None:
        """Removes records after ``step``, which a resumed run writes again."""
        if not self.file.exists():
            return
        kept = [record for record in self._records() if record.get("step", 0) <= step]
        lines = (json.dumps({key: _writable(value) for key, value in record.items()}, ensure_ascii=False) for record in kept)
        write_atomically(self.file, "".join(line + "\n" for line in lines))

    def _records(self) -> Iterator[dict[str, Any]]:
        for record in read_json_lines(self.file):
            yield {OLD_KEYS.get(key, key): _readable(value) for key, value in record.items()}


def _record(line: bytes) -> dict[str, Any]:
    """The record of one line; none for an empty or incomplete one."""
    try:
        document = json.loads(line or b"{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _writable(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def _readable(value: Any) -> Any:
    return NOT_FINITE.get(value, value) if isinstance(value, str) else value
