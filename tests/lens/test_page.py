"""The page: one file, nothing outside it, no text that becomes markup."""

from __future__ import annotations

import re

from glassformer.lens.page import MODULES, one_script, render, static


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
