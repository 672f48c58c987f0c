"""Histograms: every value is in a class, classes suit whole numbers, the picture says what it shows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.figures.histogram import class_edges, histogram, is_spread
from glassformer.figures.save import to_bytes


@given(low=st.integers(1, 5000), more=st.integers(0, 10**7))
def test_every_whole_number_has_a_class(low: int, more: int) -> None:
    edges = class_edges(float(low), float(low + more))
    assert edges[0] < low
    assert edges[-1] > low + more
    assert (np.diff(edges) > 0).all()
    assert len(edges) <= 110


def test_close_sizes_get_equal_classes_and_far_ones_growing_ones() -> None:
    np.testing.assert_allclose(class_edges(3, 6), [2.5, 3.5, 4.5, 5.5, 6.5])
    np.testing.assert_allclose(class_edges(1, 1), [0.5, 1.5])
    np.testing.assert_allclose(class_edges(1, 300), [0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 63.5, 127.5, 255.5, 511.5])
    assert not is_spread(class_edges(5, 128))
    assert is_spread(class_edges(280, 70_000))


def test_the_picture_counts_all_documents() -> None:
    rng = np.random.default_rng(3)
    groups = {"train": rng.integers(1, 4000, 97), "validation": np.array([7])}
    figure = histogram(groups, title="lengths")
    heights = [float(np.sum(axes.patches[0].get_data().values)) for axes in figure.axes]
    assert heights == [97, 1]
    assert [axes.get_title(loc="left") for axes in figure.axes][1] == "validation: 1 documents, median 7"
    assert figure.axes[-1].get_xlabel() == "tokens per document"
    assert to_bytes(figure, ".svg").count(b"<svg") == 1


def test_nothing_to_draw_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        histogram({"train": np.zeros(0)})
