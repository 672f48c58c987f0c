"""The metrics log of a run as JSON lines, appended while it trains. Imports no torch.

Non-finite numbers are written as the strings "nan", "inf" and "-inf" (JSON has none) and read back as floats. An incomplete
line, left by a killed process, is skipped. A line that is no record is named.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from glassformer.foundation.errors import MissingDependency, RunError
from glassformer.foundation.files import LONGEST_LINE, open_file, read_json_lines, room_on_disk, write_atomically
from glassformer.foundation.metrics import VALIDATION

if TYPE_CHECKING:
    import pandas

BLOCK = 1 << 16
"""Bytes that are read at once from the end of a file."""

FIRST = 1 << 12
"""Bytes that are read first: what is searched for is mostly in the last lines."""

NUMBERS = ("step", "loss", "tokens_per_second", "seconds")

NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@final
class MetricsLog:
    """The metrics of one run: one line per record, each with its ``step``."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def append(self, record: Mapping[str, Any]) -> None:
        with room_on_disk(self.file), open_file(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as stream:
            stream.write(_line(record).encode())

    def sync(self) -> None:
        """Syncs the file to disk; called before each checkpoint."""
        if self.file.exists():
            with room_on_disk(self.file), open_file(self.file, os.O_RDWR) as stream:
                os.fsync(stream.fileno())

    def read(self, damaged: Callable[[str], None] | None = None) -> list[dict[str, Any]]:
        """Every record. A damaged line is named to ``damaged`` and left out; without it, it raises."""
        lines = read_json_lines(self.file, "step", damaged=damaged)
        records = ({key: _readable(value) for key, value in record.items()} for record in lines)
        return [record for record in records if _has_numbers(record, self.file, damaged)]

    def last(self, key: str, *, most: int | None = None) -> Any:
        """The last value of ``key``, read from the end of the file; None where the last ``most`` bytes have none."""
        if not self.file.is_file():
            return None
        with open_file(self.file) as stream:
            end, torn, read = stream.seek(0, os.SEEK_END), b"", 0
            while end > 0 and (most is None or read < most):
                size = min(BLOCK if read else FIRST, end)
                end, read = end - size, read + size
                stream.seek(end)
                lines = (stream.read(size) + torn).split(b"\n")
                torn = lines.pop(0) if end > 0 else b""
                if len(torn) > LONGEST_LINE:  # no record, and no end of it in sight
                    return None
                for line in reversed(lines):
                    record = parse_record(line)
                    if key in record:
                        return _readable(record[key])
        return None

    def sampled(self, key: str, points: int) -> list[float]:
        """About ``points`` finite values of ``key``, evenly spread over the file, of which only so many pieces are read."""
        if not self.file.is_file():
            return []
        found: list[float] = []
        with open_file(self.file) as stream:
            size = stream.seek(0, os.SEEK_END)
            whole = size <= points * FIRST
            for piece in range(1 if whole else points):
                stream.seek(0 if whole else size * piece // points)
                lines = stream.read(size if whole else FIRST).split(b"\n")
                values = [_readable(parse_record(line).get(key)) for line in lines]
                good = [one for one in values if isinstance(one, int | float) and math.isfinite(one)]
                found += good if whole else good[:1]
        return found[:: max(1, -(-len(found) // points))] if len(found) > points else found

    def cut_after(self, step: int, damaged: Callable[[str], None] | None = None) -> None:
        """Removes records after ``step``, which a resumed run writes again; and damaged lines."""
        if not self.file.exists():
            return
        write_atomically(self.file, "".join(_line(record) for record in self.read(damaged) if record["step"] <= step))


def parse_record(line: bytes) -> dict[str, Any]:
    """The record of one line; none for an empty or incomplete one."""
    try:
        document = json.loads(line or b"{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _has_numbers(record: Mapping[str, Any], file: Path, damaged: Callable[[str], None] | None) -> bool:
    """Whether the step, and every figure that a run is judged by, is a number."""
    wrong = [
        f"{key} = {value!r}"
        for key, value in record.items()
        if (key in NUMBERS or key.startswith(VALIDATION)) and (isinstance(value, bool) or not isinstance(value, int | float))
    ]
    if not wrong:
        return True
    sentence = f"{file}: the record of step {record['step']!r} has {wrong[0][:100]}, which is no number; the file was changed."
    if damaged is None:
        raise RunError(sentence, reason="damaged-record")
    damaged(f"{sentence} It is left out.")
    return False


def frame_of(rows: Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """Rows as a pandas DataFrame."""
    try:
        import pandas
    except ImportError as error:
        raise MissingDependency("A frame needs the package pandas; install glassformer[data].", reason="no-pandas") from error
    return pandas.DataFrame(list(rows))


def csv_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> str:
    """One header, one line per row; what a row does not have is empty."""
    stream = io.StringIO()
    header = list(dict.fromkeys(key for row in rows for key in row)) if columns is None else list(columns)
    writer = csv.DictWriter(stream, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _line(record: Mapping[str, Any]) -> str:
    infinite = {key: str(value) for key, value in record.items() if isinstance(value, float) and not math.isfinite(value)}
    return json.dumps({**record, **infinite}, ensure_ascii=False, allow_nan=False) + "\n"


def _readable(value: Any) -> Any:
    return NOT_FINITE.get(value, value) if isinstance(value, str) else value
