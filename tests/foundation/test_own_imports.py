"""What a user's file imports of the user's own: found in its text, through several files, without running any."""

from __future__ import annotations

from pathlib import Path

from glassformer.foundation.files import sha256_of_file
from glassformer.foundation.own_imports import own_imports


def written(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        file = folder / (name.replace("__in__", "/") + ".py")
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)


def test_files_of_the_user_are_found_through_each_other(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    written(
        tmp_path,
        own_imports_plugin="import math, torch\nfrom own_imports_a import SIZE\nfrom glassformer.model.slots import MERGES\n",
        own_imports_a="def late():\n    import own_imports_b.deep as deep\n    return deep\n",
        own_imports_b__in____init__="",
        own_imports_b__in__deep="from . import other\nimport own_imports_plugin\n",
        own_imports_b__in__other="1 / 0\n",
        own_imports_c="",
    )
    found = own_imports(tmp_path / "own_imports_plugin.py")
    names = ["own_imports_a.py", "own_imports_b/__init__.py", "own_imports_b/deep.py", "own_imports_b/other.py"]
    assert [str(Path(file).relative_to(tmp_path.resolve())) for file in found] == names
    assert found[str((tmp_path / "own_imports_a.py").resolve())] == sha256_of_file(tmp_path / "own_imports_a.py")


def test_what_cannot_be_read_or_found_imports_nothing(tmp_path) -> None:
    written(tmp_path, broken="def f(:\n", lost="import no_such_module_at_all\n")
    assert own_imports(tmp_path / "broken.py") == own_imports(tmp_path / "lost.py") == {}
