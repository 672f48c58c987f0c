"""docs/studies.md: every table is that of a saved study, every saved study has its place, and the plans are those that ship."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from glassformer.foundation.errors import RunError
from glassformer.study.planning.plan import built_in_studies
from glassformer.study.study import Study

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_studies", DOCS / "make_studies.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_measurements_say(maker: ModuleType) -> None:
    text = maker.PAGE.read_text(encoding="utf-8")
    assert maker.noise(maker.page(text, maker.measured())) == text, "run python docs/make_studies.py"


def test_every_study_has_its_place(maker: ModuleType) -> None:
    places = [place["name"] for place in maker.PLACE.finditer(maker.PAGE.read_text(encoding="utf-8"))]
    assert sorted(places) == sorted(set(built_in_studies()) - {"demo"})
    assert set(maker.measured()) <= set(places)


@pytest.mark.parametrize("file", sorted((DOCS / "measurements").glob("study-*.json")), ids=lambda file: file.stem)
def test_a_measurement_has_enough_seeds_and_a_sentence_for_each_change(maker: ModuleType, file: Path) -> None:
    document = maker.measured()[file.stem.removeprefix("study-")]
    compared = [one for one in document["verdicts"] if one["verdict"] != "invalid"]  # to see runs fail takes no six seeds
    assert (
        document["base"]["seeds"] >= (document["plan"].get("seeds") or 8) >= (6 if compared or not document["verdicts"] else 4)
    )
    assert document["date"] > "2026"
    assert {one["variant"] for one in document["verdicts"]} == {one["name"] for one in document["plan"]["changes"]}
    assert all(one["variant"] in one["sentence"] and one["sentence"] in maker.table(document) for one in document["verdicts"])


DOCUMENT = {
    "date": "2026-01-02",
    "machine": {"device_name": None, "cpu": "A processor", "precision": "float32", "torch": "9"},
    "metric": "loss",
    "unit": "nats per token",
    "margin": 0.01,
}


def test_a_table_from_a_study(maker: ModuleType) -> None:
    document = {
        **DOCUMENT,
        "looks": [8, 16],
        "base": {"seeds": 8, "value": {"value": 1.5, "low": 1.4, "high": 1.6, "n": 8}},
        "notes": ["a note."],
        "verdicts": [
            {
                "variant": "x",
                "verdict": "better",
                "difference": {"value": -0.1, "low": -0.2, "high": -0.05, "n": 8},
                "p_corrected": 0.0123,
                "seeds": 8,
                "sentence": "x is better.",
                "exploratory": True,
            },
            {"variant": "y", "verdict": "invalid", "sentence": "y is invalid."},
        ],
    }
    shown = maker.table(document)
    assert "2026-01-02, A processor, float32, torch 9; 8 or 16 seeds, margin 0.01" in shown
    assert "| x | **better** (exploratory) | -0.1000 [-0.2000, -0.05000] | 0.012 | 8 |" in shown
    assert "| y | **invalid** |  |  |  |" in shown
    text = "# T\n<!-- study one -->\nold\n<!-- end -->\n<!-- study two -->\n<!-- end -->\n"
    filled = maker.page(text, {"one": document})
    assert "old" not in filled
    assert "- x is better.\n- y is invalid.\n- Note: a note.\n\n</details>\n<!-- end -->" in filled
    assert "<!-- study two -->\nNot measured yet.\n<!-- end -->" in filled
    assert maker.page(filled, {"one": document}) == filled


def test_a_study_without_a_finished_trial_is_refused(maker: ModuleType, tmp_path: Path) -> None:
    from glassformer.study.directory import StudyDirectory
    from glassformer.study.planning.plan import StudyPlan

    plan = StudyPlan.parse({"base": {"model": {}}, "changes": [{"name": "x", "set": {"model.width": 3}}]})
    StudyDirectory(tmp_path / "s").begin(plan, lambda settings: {"data": {"set": "docstrings"}, "training": {"steps": 1}})
    with pytest.raises(RunError, match="has no finished trial"):
        maker.compact(Study.load(tmp_path / "s"))


def test_a_search_has_a_result_and_no_table(maker: ModuleType) -> None:
    document = {
        **DOCUMENT,
        "metric": "accuracy",
        "looks": [6],
        "base": {"seeds": 6, "value": {"value": 0.9, "low": 0.89, "high": 0.91, "n": 6}},
        "notes": [],
        "verdicts": [],
    }
    assert "What it found: accuracy 0.9000 [0.8900, 0.9100]." in maker.table(document)
    assert "| change |" not in maker.table(document)
    text = "<!-- summary -->\n<!-- end -->\n<!-- study one -->\n<!-- end -->\n"
    assert "| one | a search: accuracy 0.9000 [0.8900, 0.9100] |" in maker.summary(text, {"one": document})
