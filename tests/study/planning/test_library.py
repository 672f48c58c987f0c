"""The plans that come with the package: each is a plan, of a recipe that exists, with changes that can be made."""

from __future__ import annotations

import pytest

from glassformer.recipe import built_in_recipes
from glassformer.study.planning.library import built_in_studies, list_studies
from glassformer.study.planning.plan_source import find_plan


def test_the_studies_of_the_issue_are_there():
    assert {"demo", "positions", "head-merging", "synthesizer", "optimizers", "block"} <= set(built_in_studies())
    assert all(row["about"] and row["base"] for row in list_studies())


@pytest.mark.parametrize("name", sorted(built_in_studies()))
def test_each_resolves_to_recipes(name):
    plan, resolve, notes = find_plan(name, None, cross=False, set={})
    assert notes == []
    assert plan.base in built_in_recipes()
    assert plan.all_looks[-1] >= 4
    for variant in plan.variants:
        for point in plan.tuning_points(variant) or [{}]:
            assert resolve({**plan.settings(variant), **point})["data"]


def test_no_study_hides_behind_a_recipe():
    assert not set(built_in_studies()) & set(built_in_recipes())
