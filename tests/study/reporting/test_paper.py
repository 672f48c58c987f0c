"""Tables, figures and the reproducibility file for a paper."""

from __future__ import annotations

import csv
import json
import re

import pytest

from glassformer.foundation.errors import UnknownName, UsageError
from glassformer.runs.directory import RunDirectory
from glassformer.study.reporting.paper import reproducibility, table_text
from glassformer.study.study import Study

BASE = [1.50, 1.52, 1.49, 1.51, 1.53, 1.48]


@pytest.fixture
def study(made_up, tmp_path) -> Study:
    losses = {"base": BASE, "al_ibi": [value - 0.2 + 0.001 * at for at, value in enumerate(BASE)], "none": []}
    return made_up.study(tmp_path / "study", losses, leaks={"none": "sees all."})


def test_latex_rows_have_as_many_cells_as_columns(study) -> None:
    text = table_text(study, "latex")
    columns = re.search(r"\\begin\{tabular\}\{(\w+)\}", text)[1]
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 4
    assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {len(columns)} == {6}
    assert r"al\_ibi & better & 6 & " in text
    assert "$-$0.1" in text  # a minus, not a hyphen
    assert not re.search(r"(?<!\\)[_%]", re.sub(r"(?m)^%", "", text))


def test_csv_has_every_number(study) -> None:
    rows = {row["variant"]: row for row in csv.DictReader(table_text(study, "csv").splitlines())}
    verdict = study.verdict("al_ibi")
    assert float(rows["al_ibi"]["difference_low"]) == verdict.difference.low
    assert float(rows["base"]["loss"]) == pytest.approx(sum(study.seed_values("base")) / 6)
    assert rows["none"]["loss"] == ""


def test_markdown_is_a_table(study) -> None:
    lines = table_text(study, "markdown").splitlines()
    assert lines[0] == "| variant | verdict | seeds | loss | difference | parameters |"
    assert lines[2].startswith("| base | baseline | 6 |")


def test_several_sets_have_a_column(sets) -> None:
    assert [row["set"] for row in csv.DictReader(table_text(sets, "csv").splitlines())][::3] == ["a", "b", "c"]
    assert "a & base & baseline" in table_text(sets, "latex")


def test_frames(study) -> None:
    pytest.importorskip("pandas")
    assert list(study.frame()["variant"]) == ["base", "al_ibi", "none"]
    by_seed = study.frame("seed")
    assert by_seed.groupby("variant")["loss"].count().to_dict() == {"base": 6, "al_ibi": 6}
    assert list(by_seed["seed"])[:6] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("what", ["differences", "values", "curves", "cost"])
def test_figures_by_name(study, what) -> None:
    assert study.figure(what).get_axes()


def test_a_figure_that_is_not_there(study, made_up, tmp_path) -> None:
    with pytest.raises(UnknownName):
        study.figure("curve")
    empty = made_up.study(tmp_path / "empty", {"base": [], "alibi": []})
    with pytest.raises(UsageError) as refused:
        empty.figure("curves")
    assert refused.value.reason == "no-figure"


def test_reproducibility_of_a_study_and_of_runs(study) -> None:
    document = json.loads(json.dumps(reproducibility(study)))
    assert document["seeds"] == [0, 1, 2, 3, 4, 5]
    assert document["data"] == [{"source": "letters", "sha256": "ab"}]
    assert document["environments"] == [{"torch": "9.9", "threads": 1}]
    assert [one["verdict"] for one in document["verdicts"]] == ["better", "invalid"]
    run = RunDirectory(study.directory.trial(study.finished("base")[0].trial))
    alone = reproducibility([run])
    assert alone["recipes"][run.root.name]["data"] == {"path": "letters.txt"}
    assert alone["data"] == document["data"]
