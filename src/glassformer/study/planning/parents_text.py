"""The parents of a variant -> how much of the judged text they were trained on, where their data are still there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from glassformer.assembly import prepare_data, recorded_recipe
from glassformer.data.data_kinds import PreparedData
from glassformer.data.overlap import share_read
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.foundation.errors import GlassformerError
from glassformer.foundation.progress import SILENT
from glassformer.recipe import Recipe, is_run, parent_recipe
from glassformer.runs.directory import RunDirectory


def read_by_parents(recipe: Recipe, data: PreparedData, split: str) -> float:
    """The largest share of the judged text that a parent, or a parent's parent, was trained on; 0 where that is not known."""
    if recipe.init_from is None:
        return 0.0
    encode, judged = data.tokenizer.encode, data.split(split)
    shares = (share_read(read.split("train"), judged, encode) for read in _data_of_parents(recipe) if "train" in read.names)
    return max((share for share in shares if share is not None), default=0.0)


def _data_of_parents(recipe: Recipe) -> Iterator[PreparedData]:
    """What each ancestor was trained on, the nearest first, up to one whose data are gone or have changed."""
    place = recipe.init_from
    if place is None:
        return
    try:
        if is_run(place):
            run = RunDirectory(Path(place))
            parent = recorded_recipe(run, SILENT.say)
            data = prepare_data(parent, load_tokenizer(run.tokenizer_file), expect=run.read_environment().get("data"))
        else:
            parent = parent_recipe(recipe)
            data = prepare_data(parent)
    except GlassformerError:
        return
    yield data
    yield from _data_of_parents(parent)
