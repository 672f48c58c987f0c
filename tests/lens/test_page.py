"""The page: one file, nothing outside it, no text that becomes markup."""

from __future__ import annotations

import json
import re

import numpy as np

from glassformer.lens.page import MODULES, document, one_script, packed, render, static, unpacked, view

from .conftest import HEADS, LAYERS, TEXT


def test_nothing_outside(look_of) -> None:
    page = render([look_of()], title="</title><script>alert(1)</script>")
    assert "http" not in page.replace("http-equiv", "")
    assert not re.search(r"<(link|img|script)[^>]+(src|href)=[\"'](?!data:)", page)
    assert "alert(1)</script>" not in page
    assert "default-src 'none'" in page


def test_a_token_cannot_end_the_script(look_of) -> None:
    page = render([look_of(ids=list(b"</script>"))], title="x")
    data = page.split('id="look-data">')[1].split("</script>")[0]
    assert "\\u003c" in data
    assert page.count("</script>") == 2


def test_modules_need_only_those_before_them() -> None:
    for at, name in enumerate(MODULES):
        needed = re.findall(r'from "\./(.+?)"', static(name))
        assert all(other in MODULES[:at] for other in needed), name
    assert "import " not in one_script()
    assert not re.search(r"^export", one_script(), flags=re.MULTILINE)


def test_no_two_modules_share_a_name() -> None:
    names = re.findall(r"^(?:async )?(?:const|function|let) (\w+)", one_script(), flags=re.MULTILINE)
    assert len(names) == len(set(names))


def test_maps_come_back(look_of) -> None:
    attention = look_of().attention
    found = unpacked(packed(attention), attention.shape)
    np.testing.assert_allclose(found, attention, atol=0.004)
    assert unpacked(packed(np.array([0.001, np.nan, 2.0])), (3,)).round(3).tolist() == [0.001, 0.0, 1.0]


def test_the_format(look_of) -> None:
    look = look_of(hide=[2])
    whole = json.loads(json.dumps(document([look], title="a title"), allow_nan=False))
    assert set(whole) == {"version", "title", "kind", "scale", "views"}
    one = whole["views"][0]
    assert (one["layers"], one["heads"], one["hidden"]) == (LAYERS, HEADS, [2])
    assert len(one["tokens"]) == len(one["keys"]) == len(one["losses"]) == len(TEXT)
    assert np.shape(one["lens"]["words"]) == np.shape(one["lens"]["shares"]) == (LAYERS + 1, len(TEXT), 5)
    assert [row[:2] for row in one["table"]["rows"]][:2] == [[0, 0], [0, 1]]


def test_without_a_pattern(look_of) -> None:
    one = view(look_of(mixer="none", positions="none"))
    assert one["maps"] is None
    assert "forms no attention pattern" in one["no_maps"]
    assert one["losses"] is not None


def test_labels_have_their_names(network_of) -> None:
    from glassformer.data.tokenizers.byte import ByteTokenizer
    from glassformer.lens.look import Look
    from glassformer.model.config import ModelConfig
    from glassformer.model.transformer import build_model

    config = ModelConfig.parse({"width": 12, "heads": 3, "context": 9, "causal": False, "head": "classifier"})
    network = build_model(config, 256, outputs=3, seed=1).eval()
    words = view(Look(network, ByteTokenizer(), [3, 4, 5], labels=["praise", "blame"]))["lens"]["words"]
    assert sorted(words[-1][0]) == ["blame", "label 2", "praise"]
