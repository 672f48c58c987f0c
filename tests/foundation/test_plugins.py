"""A user's own files: run when named, once, recorded with their sum; mistakes in them are sentences."""

from __future__ import annotations

import copy
import hashlib
import sys
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace

import pytest
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError, UsageError
from glassformer.foundation.files import sha256_of_file
from glassformer.foundation.plugins import (
    changed_plugins,
    fault_in_plugin,
    is_recorded,
    load_plugins,
    loaded_plugins,
    module_of,
    own_imports,
    plugin_checksums,
    replaced_functions,
)
from glassformer.foundation.registry import Slot, VariantConfig, unrecorded_parts

PLUGIN = '''
from glassformer.foundation.registry import Slot, VariantConfig

@Slot.every["test.plugins"].variant("mine")
class Mine(VariantConfig):
    """Mine, version {version}."""
'''


@pytest.fixture
def slot(tmp_path, monkeypatch):
    (tmp_path / "package_of_plugins_test").mkdir()
    (tmp_path / "package_of_plugins_test" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("glassformer.foundation.plugins._loaded", {})
    yield Slot[VariantConfig]("test.plugins", "a slot for plugins", "package_of_plugins_test")
    del Slot.every["test.plugins"]


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_a_variant_from_a_file(slot, tmp_path) -> None:
    file = written(tmp_path, "mine.py", PLUGIN.format(version=1))
    load_plugins([file, str(file)])
    assert slot.names() == ["mine"]
    assert loaded_plugins() == [{"file": str(file), "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}]


def test_a_file_that_was_changed_is_run_again(slot, tmp_path) -> None:
    file = written(tmp_path, "mine.py", PLUGIN.format(version=1))
    load_plugins([file])
    written(tmp_path, "mine.py", PLUGIN.format(version=2))
    load_plugins([file])
    assert slot.get("mine").one_line() == "Mine, version 2."
    assert [plugin["sha256"] for plugin in loaded_plugins()] == [hashlib.sha256(file.read_bytes()).hexdigest()]


def test_what_a_plugin_imports_is_part_of_it(slot, tmp_path) -> None:
    """Edited, it is run again, and its sum is another; installed packages and ours are left out."""
    helper = written(tmp_path, "helper_of_plugins_test.py", "VERSION = 1\n")
    text = f"import math\nfrom {helper.stem} import VERSION\n{PLUGIN.format(version='{VERSION}')}"
    file = written(tmp_path, "mine.py", f"{text}\nMine.__doc__ = f'Mine, version {{VERSION}}.'\n")
    load_plugins([file])
    (first,) = loaded_plugins()
    assert list(first["imports"]) == [str(helper.resolve())]
    assert slot.get("mine").one_line() == "Mine, version 1."
    assert is_recorded(helper.stem)
    written(tmp_path, helper.name, "VERSION = 1 + 1\n")
    load_plugins([file])
    assert slot.get("mine").one_line() == "Mine, version 2."
    assert plugin_checksums(loaded_plugins()) != plugin_checksums([first])
    assert changed_plugins([first]) == [helper.name]


def test_a_part_whose_class_is_in_no_plugin_is_named(slot, tmp_path, monkeypatch) -> None:
    class Cupboard(VariantConfig):
        """Holds another part."""

        inner: VariantConfig
        several: dict[str, list[VariantConfig]]

    load_plugins([written(tmp_path, "mine.py", PLUGIN.format(version=1))])
    mine = slot.get("mine")()

    @slot.variant("own")
    class Own(VariantConfig):
        """Of this module, which is neither ours nor a plugin."""

    Cupboard.kind, Cupboard.__module__, Cupboard.__qualname__ = "cupboard", "glassformer.somewhere", "Cupboard"
    assert unrecorded_parts(Cupboard(inner=mine, several={"a": [mine]})), "what it says of itself does not count"
    monkeypatch.setitem(sys.modules, "glassformer.somewhere", SimpleNamespace(Cupboard=Cupboard))
    assert not is_recorded(__name__)
    assert unrecorded_parts(Cupboard(inner=mine, several={"a": [mine]})) == []
    assert unrecorded_parts(Cupboard(inner=Own(), several={"a": [Own()]})) == ["inner=own", "several.a=own"]


def test_two_files_may_not_take_the_same_name(slot, tmp_path) -> None:
    (tmp_path / "other").mkdir()
    first = written(tmp_path, "mine.py", PLUGIN.format(version=1))
    second = written(tmp_path / "other", "mine.py", PLUGIN.format(version=1))
    load_plugins([first])
    with refused(ConfigError, "variant-name-taken", "'mine'"):
        load_plugins([second])


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("bad.py", "1 / 0\n", "running it failed with ZeroDivisionError: division by zero"),
        ("bad.py", "def f(:\n", "running it failed with SyntaxError"),
        ("bad.py", "import no_such_module_at_all\n", "running it failed with ModuleNotFoundError"),
        ("bad.py", "import sys\nsys.exit(3)\n", "running it failed with SystemExit"),
        ("notes.txt", "", "not a Python file that exists"),
    ],
)
def test_mistakes_are_sentences(slot, tmp_path, name: str, text: str, words: str) -> None:
    file = written(tmp_path, name, text)
    with pytest.raises(UsageError) as caught:
        load_plugins([file])
    sentence = str(caught.value)
    assert sentence.startswith(f"--plugin {file}")
    assert sentence.removeprefix(f"--plugin {file}").split(": ", 1)[1].startswith(words)
    assert loaded_plugins() == []


def test_a_missing_file_and_a_folder(slot, tmp_path) -> None:
    (tmp_path / "folder.py").mkdir()
    for file in (tmp_path / "absent.py", tmp_path / "folder.py"):
        with refused(UsageError, "no-such-plugin"):
            load_plugins([file])


def written_files(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        file = folder / (name.replace("__in__", "/") + ".py")
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)


def test_files_of_the_user_are_found_through_each_other(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    written_files(
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
    written_files(tmp_path, broken="def f(:\n", lost="import no_such_module_at_all\n")
    assert own_imports(tmp_path / "broken.py") == own_imports(tmp_path / "lost.py") == {}


@pytest.fixture
def _path(monkeypatch) -> None:
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.setattr("sys.modules", dict(sys.modules))


@pytest.mark.usefixtures("_path")
def test_a_plugin_imports_what_lies_beside_it(slot, tmp_path) -> None:
    """A module, and one in a folder beside it, wherever the process runs; both have a checksum."""
    folder = tmp_path / "elsewhere"
    (folder / "inside_of_plugins_test").mkdir(parents=True)
    written(folder, "beside_of_plugins_test.py", "ONE = 1\n")
    written(folder / "inside_of_plugins_test", "deep.py", "TWO = 2\n")
    imports = "from beside_of_plugins_test import ONE\nfrom inside_of_plugins_test.deep import TWO\n"
    load_plugins([written(folder, "mine.py", imports + PLUGIN.format(version=1))])
    (record,) = loaded_plugins()
    assert {Path(file).name for file in record["imports"]} == {"beside_of_plugins_test.py", "deep.py"}
    other = tmp_path / "other"
    other.mkdir()
    written(other, "beside_of_plugins_test.py", "ONE = 3\n")
    with refused(UsageError, "two-siblings", "beside_of_plugins_test"):
        load_plugins([written(other, "second.py", "import beside_of_plugins_test\n")])


FAULTY = """
class Mine:
    def __init__(self):
        self._modules = {}

    def asked(self, one):
        return one.missing

class Holder(Mine):
    pass
"""


def test_an_error_of_a_plugin_is_the_plugins(slot, tmp_path) -> None:
    """In its code; by what its class lacks, takes or is; but not any error while a plugin is loaded."""
    file = written(tmp_path, "faulty.py", FAULTY)
    load_plugins([file])
    module = sys.modules[module_of(file)]
    mine = module.Mine()

    class Ours:
        def __init__(self, part):
            self._modules = {"part": part}

        def uses(self):
            raise RuntimeError("shapes do not fit")

    calls = {
        "line 7": lambda: mine.asked(3),
        "class Mine: AttributeError": lambda: mine.nothing,
        "class Mine: TypeError": lambda: mine.asked(1, 2),
        "class Mine: RuntimeError: shapes": lambda: Ours(mine).uses(),
    }
    for expected, call in calls.items():
        with pytest.raises(Exception) as caught:  # noqa: PT011
            call()
        assert expected in (fault_in_plugin(caught.value) or ""), expected
        assert str(file) in (fault_in_plugin(caught.value) or "")
    with pytest.raises(RuntimeError) as caught:
        Ours(3).uses()
    assert fault_in_plugin(caught.value) is None


def test_of_two_classes_of_one_name_the_one_at_work_is_named(slot, tmp_path) -> None:
    files = [written(tmp_path, name, FAULTY) for name in ("one.py", "other.py")]
    load_plugins(files)
    for file in files:
        mine = sys.modules[module_of(file)].Mine()
        with pytest.raises(TypeError) as caught:
            mine.asked(1, 2)
        assert str(file) in (fault_in_plugin(caught.value) or "")


REPLACED = {
    "torch.nn.functional.gelu": "def mine(x):\n    return x\nF.gelu = mine",
    "torch.nn.functional.silu": "class Mine:\n    def __call__(self, x):\n        return x\nF.silu = Mine()",
    "torch.nn.functional.relu": "class Mine:\n    def call(self, x):\n        return x\nF.relu = Mine().call",
    "torch.nn.modules.normalization.LayerNorm.forward": "nn.LayerNorm.forward = lambda self, x: x",
    "torch.nn.modules.linear.Linear": "class Mine(nn.Linear):\n    pass\ntorch.nn.modules.linear.Linear = Mine",
    "torch.optim.sgd.SGD.step": "torch.optim.SGD.step = lambda self, closure=None: None",
    "torch.nn.modules.module._global_forward_hooks": "modules.module._global_forward_hooks[-1] = lambda module, args, out: out",
}


@pytest.mark.parametrize("place", REPLACED)
def test_what_a_plugin_leaves_in_the_place_of_torchs_code_is_named(tmp_path, monkeypatch, place) -> None:
    """A patch that was forgotten in a file changes every figure; so do hooks that torch calls for all modules."""
    owner, _, attribute = place.rpartition(".")
    held = resolve_name(owner)
    monkeypatch.setattr(
        held, attribute, copy.copy(vars(held)[attribute]) if attribute.startswith("_") else vars(held)[attribute]
    )
    file = tmp_path / "patches.py"
    file.write_text(f"import torch\nfrom torch import nn\nfrom torch.nn import functional as F, modules\n{REPLACED[place]}\n")
    monkeypatch.setattr("glassformer.foundation.plugins._loaded", {})
    load_plugins([file])
    assert [one.partition(" stands in the place of ")[2] for one in replaced_functions()] == [place]
