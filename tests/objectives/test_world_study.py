"""The plan knowledge-world at full size: the people who are only in the text are known after reading it, and not without."""

from __future__ import annotations

import pytest

import glassformer as gf


@pytest.mark.slow  # 18 runs: a quarter of an hour on two cores
def test_people_of_the_text_are_known_after_reading_it_and_not_without(tmp_path) -> None:
    study = gf.compare("knowledge-world", out=tmp_path / "study", store=False)
    right = {name: float(study.seed_values(name).mean()) for name in study.plan.variants}
    assert right["base"] >= 0.8
    assert right["pretrained, then fine-tuned"] >= 0.75
    assert right["no pretraining"] <= 0.3
