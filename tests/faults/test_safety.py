"""Nothing unsafe is read, nothing is fetched: no pickle, no code from files, no network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import glassformer

SOURCE = Path(glassformer.__file__).parent
UNSAFE = re.compile(
    r"^\s*(?:import|from)\s+(?:dill|cloudpickle|shelve|marshal|joblib)\b"
    r"|\bpickle\.(?:load|loads|Unpickler)\b|(?<!safetensors\.)\btorch\.load\(|\ballow_pickle\s*=\s*True"
    r"|\byaml\.(?:load|unsafe_load|full_load)\(|\btrust_remote_code\s*=\s*True"
    r"|(?<![.\w])(?:eval|exec)\(|\bos\.system\(|\bshell\s*=\s*True",
    re.MULTILINE,
)
HARMFUL = (
    "import dill",
    "x = torch.load(f)",
    "pickle.loads(b)",
    "yaml.load(f)",
    "np.load(f, allow_pickle=True)",
    "run(c, shell=True)",
    "y = eval(t)",
)
HARMLESS = ("import torch.utils.checkpoint", "safetensors.torch.load(data)", "model.eval()", "pickle.dumps(x)")


def test_no_source_file_reads_pickle_or_runs_text() -> None:
    found = {
        f"{file.relative_to(SOURCE)}: {match.group().strip()}"
        for file in sorted(SOURCE.rglob("*.py"))
        for match in UNSAFE.finditer(file.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_the_pattern_finds_what_it_should() -> None:
    assert [line for line in (*HARMFUL, *HARMLESS) if UNSAFE.search(line)] == list(HARMFUL)


def test_a_checkpoint_is_safetensors_and_json(trained) -> None:
    for file in (trained / "checkpoints").rglob("*"):
        if file.is_file():
            assert file.suffix in (".safetensors", ".json")
            assert not file.read_bytes().startswith((b"PK", b"\x80"))  # torch's archives, pickle's first byte


def test_importing_everything_needs_no_network() -> None:
    program = (
        "import importlib, pkgutil, socket, sys\n"
        "def refuse(*a, **k):\n    raise SystemExit(f'a connection was asked for: {a}')\n"
        "socket.socket.connect = refuse\nsocket.getaddrinfo = refuse\nsocket.create_connection = refuse\n"
        "import glassformer\n"
        "for module in pkgutil.walk_packages(glassformer.__path__, 'glassformer.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        try:\n            importlib.import_module(module.name)\n"
        "        except ModuleNotFoundError as error:\n"
        "            if (error.name or '').startswith('glassformer'):\n                raise\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_training_needs_no_network(fault) -> None:
    fault.finish(["no_network"])  # fails when a connection is asked for
    assert fault.run.steps()


def test_a_plugin_is_not_run_because_a_folder_names_it(trained, tmp_path) -> None:
    import json
    import shutil

    from glassformer.run import load

    shutil.copytree(trained, tmp_path / "run")
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(tmp_path / 'proof')!r}, 'w').write('run')\n")
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    environment["plugins"] = [{"file": str(evil), "sha256": "0"}]
    (tmp_path / "run" / "environment.json").write_text(json.dumps(environment))
    load(tmp_path / "run").generate("the", max_new_tokens=1)
    assert not (tmp_path / "proof").exists()
