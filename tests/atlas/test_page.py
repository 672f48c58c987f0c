"""The atlas's page, JSON and CSV; rechecking; trying a row of one's own; the command."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.atlas.test_atlas import ATLAS, MACHINE, made, tuned
from tests.atlas.test_atlas import small as small

from glassformer.atlas.cells import base_rate, cells, over_texts, rate_of
from glassformer.atlas.page import bibtex, document, render, to_csv
from glassformer.atlas.protocol import BASELINE, Atlas
from glassformer.atlas.records import Records, records_folder, trial_line
from glassformer.atlas.running import Portion, recheck
from glassformer.atlas.trying import row_file, try_row
from glassformer.cli.main import run
from glassformer.foundation.errors import UsageError
from glassformer.study.running.executors.base import InlineExecutor
from glassformer.study.running.perform_task import perform

SNIPPETS = Path(__file__).parents[2] / "docs" / "snippets"


def test_document_page_and_csv() -> None:
    records = made({"swiglu": -0.05, "gelu": 0.05, "placebo-copy": 0.0, "placebo-eps": 0.08, "ruler-fewer-steps": 0.05})
    found = cells(ATLAS, records)
    known = document(ATLAS, records, found)
    summary = known["summary"]
    assert (summary["placebo_cells"], summary["placebo_false_words"]) == (2, 1)
    assert (summary["ruler_cells"], summary["rulers_found"], summary["control_cells"]) == (1, 1, 0)
    assert len(known["rows"]) == len(ATLAS.rows)
    page = render(known)
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "</script" not in page.split('id="atlas-data">')[1].split("</script>")[0]
    table = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert len(table) == len(found)
    place = ("swiglu", "wikitext-2", "XS", "modern")
    own = next(row for row in table if (row["row"], row["text"], row["size"], row["base"]) == place)
    assert (own["word"], own["seeds"]) == ("better", "6")
    assert float(own["difference"]) == pytest.approx(-0.05, abs=0.01)


def test_failed_runs_are_no_numbers_in_json() -> None:
    records = made({"swiglu": -0.05})
    for number, (key, one) in enumerate(list(records.trials.items())):
        if number % 7 == 0:
            records.trials[key] = replace(one, values=None, problem="diverged")
    known = document(ATLAS, records, cells(ATLAS, records))
    json.dumps(known, allow_nan=False)
    assert next(cell for cell in known["cells"] if cell["row"] == "swiglu" and cell["seeds"])["word"] == "invalid"


def test_over_texts_needs_all_texts() -> None:
    records = made({"swiglu": -0.05})
    known = document(ATLAS, records, cells(ATLAS, records))
    assert all(row["overall"] is None for row in known["rows"])


def test_texts_apart_have_no_part_in_the_word_over_texts_and_in_trends() -> None:
    """With records on two texts and a skill, at two sizes of the skill."""
    records, noise = made({"swiglu": -0.05}), 0.01
    for text, size in (("boolq-passages", "XS"), ("recall", "XS"), ("recall", "S")):
        for one in made({"swiglu": 0.5, "placebo-copy": 0.0}, size=size, seed=len(text)).trials.values():
            assert one.values is not None
            values = one.values - 0.55 * (text != "recall" and one.job.row == "swiglu")
            about = {"recipe": one.recipe, "against": one.against, "machine": one.machine, "documents": "d", "problem": None}
            records.include(trial_line(replace(one.job, text=text), values=values, seconds=1.0, **about), text)
        for name in (BASELINE, "swiglu"):
            about = {"row": name, "size": size, "base": "modern", "machine": MACHINE}
            records.include({"k": "variant", **about, "parameters": len(size), "step_flops": 1, "leak": None}, text)
    found = cells(ATLAS, records)
    words = {(cell.text, cell.size): cell.word for cell in found if cell.row.name == "swiglu" and cell.word != "open"}
    assert words[("recall", "XS")] == words[("recall", "S")] == "worse"
    overall = over_texts(ATLAS, found)["swiglu"]
    assert overall.difference.value == pytest.approx(-0.05, abs=noise)
    assert not any(cell.trend for cell in found if cell.text == "recall")


def test_citation() -> None:
    shown = bibtex(ATLAS.row("swiglu"))
    assert shown == "@misc{swiglu, author = {Shazeer}, title = {GLU Variants Improve Transformer}, year = {2020}}"


@pytest.mark.parametrize("moved", [0.0, pytest.param(0.002, marks=pytest.mark.slow)])
def test_recheck_says_equal_or_by_how_much(small: Atlas, moved: float) -> None:
    def executor(logs: Path) -> InlineExecutor:
        return InlineExecutor(perform)

    small = replace(small, changes={key: value for key, value in small.changes.items() if key != "training.lr"})
    records, first, again = tuned({BASELINE: 1.0}), io.StringIO(), io.StringIO()
    Portion(small, records, first, executor).run([("swiglu", "wikitext-2", "XS", "modern")])
    for key, one in list(records.trials.items()):
        assert one.values is not None
        records.trials[key] = replace(one, values=one.values + moved)
    (found,) = recheck(small, records, again, executor, rows=["swiglu"])
    assert found.largest == pytest.approx(moved, rel=1e-6, abs=0.0)
    against = [{line.get("against") for line in map(json.loads, own.getvalue().splitlines())} for own in (first, again)]
    assert against[0] == against[1]  # the baseline at its tuned rate


def test_a_row_of_ones_own_needs_its_yaml(tmp_path: Path) -> None:
    assert Atlas.load(more=[row_file(SNIPPETS / "my_feedforward.py")]).row("my_feedforward").year == 2021
    with pytest.raises(UsageError) as error:
        row_file(tmp_path / "my.py")
    assert error.value.reason == "no-row-file"


def test_a_row_that_changes_nothing_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    settings = (SNIPPETS / "my_feedforward.yaml").read_text().splitlines()
    (tmp_path / "mine.yaml").write_text("\n".join(line for line in settings if not line.startswith("set:")))
    with pytest.raises(UsageError) as error:
        try_row(tmp_path / "mine.py", lambda logs: InlineExecutor(perform))
    assert error.value.reason == "row-changes-nothing"


@pytest.mark.slow
def test_try(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["atlas", "try", str(SNIPPETS / "my_feedforward.py"), "--seeds", "2", "--steps", "10", "--jobs", "1", "--json"]
    assert run(command) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["cell"]["row"], answer["provisional"], answer["runs"]) == ("my_feedforward", True, 4)
    assert answer["conformance"] > 10


def test_single_rows_are_run_from_nothing_at_the_rates_of_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Portion] = []
    monkeypatch.setattr(Portion, "run", lambda self, *_: seen.append(self))
    assert run(["atlas", "run", "--row", "lion", "--text", "wikitext-2", "--out", str(tmp_path / "cell.jsonl")]) == 0
    (portion,), known = seen, Records.load([records_folder()])
    assert not portion.records.trials
    plans = portion._cells([("lion", "wikitext-2", "XS", "modern")], None, None)
    jobs = [job for plan in plans for batch in plan.batches for job in batch]
    assert {job.row: job.rate for job in jobs} == {name: rate_of(ATLAS, known, name) for name in (BASELINE, "lion")}
    assert base_rate(ATLAS, known) != 1.0


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["atlas", "list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) >= 3 * len(ATLAS.rows) - 3
    assert run(["atlas", "show", "swiglu"]) == 0
    assert "--row swiglu" in capsys.readouterr().out
    assert run(["atlas", "plan", "--json", "--seconds", "1"]) == 0
    left = json.loads(capsys.readouterr().out)["open"]
    assert left
    assert all(one["runs"] >= one["looks"] for one in left)
    assert run(["atlas", "page", "--out", str(tmp_path)]) == 0
    assert {file.name for file in tmp_path.iterdir()} == {"atlas.html", "atlas.json", "atlas.csv"}
    assert run(["atlas", "show", "swigloo"]) == 2
    assert run(["atlas", "run", "--out", str(tmp_path / "p"), "--seeds", "3"]) == 2
    assert run(["atlas", "run", "--out", str(tmp_path / "p"), "--row", "swiglu", "--text", "wiki"]) == 2
    assert run(["atlas", "add", str(tmp_path / "none.jsonl"), "--to", str(tmp_path)]) == 2
    assert run(["atlas", "recheck", "--out", str(tmp_path / "again.jsonl"), "--row", "swigloo"]) == 2
    with pytest.raises(UsageError) as refused:
        recheck(ATLAS, Records(), io.StringIO(), lambda logs: InlineExecutor(perform), rows=["lion"])
    assert refused.value.reason == "nothing-to-recheck"
