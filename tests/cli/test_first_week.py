"""What hurt newcomers, each as a test: cheats, resume, reports of another model, plugins, flags that were lost, whose fault."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.refusals import refused

import glassformer as gf
from glassformer.foundation.errors import CheckFailed, UsageError
from glassformer.foundation.yaml_text import dump_yaml
from glassformer.runs.directory import RunDirectory

SETTINGS = ["data.set=docstrings", "model.layers=1", "model.width=16", "model.heads=2", "model.context=16", "training.steps=2"]
SMALL_STUDY = [word for setting in SETTINGS for word in ("--set", setting)]
PLUGIN = '''
import torch
from glassformer.model.slots import FEEDFORWARDS, FeedforwardConfig


@FEEDFORWARDS.variant("mine_NAME")
class MineConfig(FeedforwardConfig):
    """One of one's own."""

    def build(self, dims):
        return Mine(dims)

    def flops(self, dims, batch, length):
        return 2 * batch * length * dims.width * dims.width


class Mine(torch.nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.map = torch.nn.Linear(dims.width, dims.width, bias=dims.bias)

    def forward(self, x_BTD):
        return torch.sigmoid(self.map(x_BTD))
'''


@pytest.fixture
def plugin(tmp_path, request) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(PLUGIN.replace("NAME", request.node.name.replace("[", "_").replace("]", "")), encoding="utf-8")
    return file


@pytest.fixture
def kind(request) -> str:
    return f"mine_{request.node.name.replace('[', '_').replace(']', '')}"


class TestTheObviousCheat:
    """``model.causal=false`` under next-token: what must hold is the objective's to say."""

    def test_train_refuses(self, cli, tiny_file, tmp_path) -> None:
        answer = cli("train", tiny_file, "--set", "model.causal=false", "--out", tmp_path / "run")
        assert answer.code == 3
        assert "future" in answer.sentence
        assert not (tmp_path / "run").exists()

    def test_check_finds_it_and_no_flag_hides_it(self, cli, tiny_file) -> None:
        assert cli("check", tiny_file, "--set", "model.causal=false").code == 3
        refused = cli("check", tiny_file, "--set", "model.causal=false", "--encoder")
        assert refused.code == 2
        assert "needs a causal model" in refused.sentence

    def test_allowed_leaks_are_marked_in_every_figure(self, cli, tiny_file, tmp_path) -> None:
        run = tmp_path / "run"
        assert cli("train", tiny_file, "--set", "model.causal=false", "--allow-leaks", "--out", run).code == 0
        assert cli("evaluate", run).code == 3
        assert cli("evaluate", run, "--allow-leaks", "--json").json["tainted"]
        with pytest.raises(CheckFailed):
            gf.load(run).evaluate_texts(["the cat"])

    def test_compare_calls_it_invalid(self, cli, tiny_file, tmp_path) -> None:
        words = ["--vary", "model.causal=false", "--seeds", 2, "--on", "inline", "--no-store", "--out", tmp_path / "study"]
        (verdict,) = cli("compare", tiny_file, *words, "--json").json["verdicts"]
        assert verdict["verdict"] == "invalid"


@pytest.mark.usefixtures("unchecked")
class TestResume:
    def test_a_runs_folder_is_enough(self, cli, tiny_file, tmp_path) -> None:
        run = tmp_path / "run"
        cli("train", tiny_file, "--out", run)
        assert cli("train", run, "--resume", "--set", "training.steps=8", "--json").json["step"] == 8
        assert cli("train", run / "recipe.yaml", "--resume", "--set", "training.steps=9", "--json").json == (
            cli("train", run, "--resume", "--json").json
        )
        assert "All 9 steps are done." in cli("train", run, "--resume").err
        refused = cli("train", run)
        assert refused.code == 2
        assert "is the folder of a run. To continue it, add --resume." in refused.sentence

    def test_its_own_recipe_once_more_takes_a_folder_of_its_own(self, cli, tiny_file, tmp_path, monkeypatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert cli("train", tiny_file, "--json").json["run"] == "runs/tiny"
        again = cli("train", "runs/tiny/recipe.yaml", "--json")
        assert again.json["run"] == "runs/tiny-2"
        assert "runs/tiny exists, so this run goes to runs/tiny-2." in again.err

    def test_a_mistyped_folder(self, cli, tiny_file, tmp_path) -> None:
        cli("train", tiny_file, "--out", tmp_path / "first")
        answer = cli("train", tiny_file, "--out", tmp_path / "frist", "--resume")
        assert answer.code == 1
        assert "nothing to resume. Did you mean 'first'?" in answer.sentence
        assert not (tmp_path / "frist").exists()


@pytest.mark.usefixtures("unchecked")
def test_a_changed_recipe_says_what_was_changed_and_drops_what_no_longer_holds(cli, tiny, tmp_path) -> None:
    file = tmp_path / "told.yaml"
    file.write_text(dump_yaml({**tiny, "about": "4 layers and more.", "result": "Validation loss 1.571."}), encoding="utf-8")
    cli("train", file, "--out", tmp_path / "same")
    cli("train", file, "--out", tmp_path / "other", "--set", "model.layers=2")
    same, other = (RunDirectory(tmp_path / name).read_recipe() for name in ("same", "other"))
    assert (same["about"], same["result"]) == ("4 layers and more.", "Validation loss 1.571.")
    assert (other["about"], other["result"]) == ("told with model.layers=2.", "")
    page = Path(cli("report", tmp_path / "other", "--json").json["report"]).read_text(encoding="utf-8")
    assert "4 layers" not in page
    assert "told with model.layers=2." in page


@pytest.mark.usefixtures("unchecked")
class TestPlugins:
    def test_a_changed_one_is_noticed(self, cli, tiny_file, tmp_path, plugin, kind) -> None:
        words = ["--plugin", plugin]
        cli("train", tiny_file, "--set", f"model.feedforward={kind}", "--out", tmp_path / "run", *words)
        plugin.write_text(plugin.read_text().replace("torch.sigmoid(", "torch.tanh("), encoding="utf-8")
        refused = cli("train", tmp_path / "run", "--resume", "--set", "training.steps=8", *words)
        assert refused.code == 2
        assert "was trained with another mine.py" in refused.sentence
        answer = cli("evaluate", tmp_path / "run", *words, "--json", "--quiet")
        assert any("mine.py has changed since" in note for note in answer.json["notes"])

    def test_its_fault_is_its_own_with_file_and_line(self, cli, tiny_file, tmp_path, plugin, kind) -> None:
        plugin.write_text(plugin.read_text().replace("torch.sigmoid(", "torch.sigmoidd("), encoding="utf-8")
        answer = cli("train", tiny_file, "--set", f"model.feedforward={kind}", "--plugin", plugin, "--out", tmp_path / "run")
        assert answer.code == 1
        assert "bug in Glassformer" not in answer.err
        assert f"{plugin}, line " in answer.sentence
        assert "AttributeError" in answer.sentence

    def test_next_lines_carry_it(self, cli, tiny_file, tmp_path, plugin, kind) -> None:
        words = ["--set", f"model.feedforward={kind}", "--plugin", plugin, "--out", tmp_path / "run"]
        assert f"--plugin {plugin}" in cli("train", tiny_file, *words).err

    def test_conformance_from_the_command_line(self, cli, plugin) -> None:
        answer = cli("check", "--conformance", plugin, "--json")
        assert answer.code == 0, answer.err
        assert answer.json["passed"]
        assert len(answer.json["cases"]) >= 8
        plugin.write_text(plugin.read_text().replace("return 2 * batch", "return 3 * batch"))
        wrong = cli("check", "--conformance", plugin)
        assert wrong.code == 3
        assert "-flops" in wrong.sentence


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, "permission denied"),
        (errno.ENOSPC, "disk is full"),
        (errno.ENOENT, "does not exist"),
        (errno.EIO, "check"),
    ],
)
def test_the_machines_faults_are_not_ours(cli, monkeypatch, tmp_path, number: int, words: str) -> None:
    def fails(*arguments: object, **options: object) -> None:
        raise OSError(number, "Some words of the system", str(tmp_path / "place"))

    monkeypatch.setattr("glassformer.runs.overview.find_runs", fails)
    answer = cli("runs", tmp_path)
    assert answer.code == 1
    assert "bug in Glassformer" not in answer.err
    assert words in answer.sentence
    assert str(tmp_path / "place") in answer.sentence


class TestFlagsThatWereLost:
    def test_predictions_of_texts(self, cli, trained, tmp_path) -> None:
        words = ["--text", "the cat sat", "--text", "a hen", "--predictions", tmp_path / "losses.tsv"]
        assert cli("evaluate", trained, *words).code == 0
        lines = (tmp_path / "losses.tsv").read_text(encoding="utf-8").splitlines()
        assert lines[0].split("\t") == ["text", "position", "id", "token", "nats"]
        assert len(lines) == 1 + 10 + 4
        assert lines[-1].startswith("2\t4\t")

    @pytest.mark.parametrize("beside", [["--data", "x.txt"], ["--text", "the cat"]])
    def test_a_split_beside_what_has_none(self, cli, trained, beside) -> None:
        answer = cli("evaluate", trained, "--split", "train", *beside)
        assert answer.code == 2
        assert f"--split train has no effect with {beside[0]}" in answer.sentence

    def test_in_python(self, trained, tmp_path) -> None:
        run = gf.load(trained)
        with refused(UsageError, "split-and-data"):
            run.evaluate("train", data=tmp_path / "x.txt")
        assert run.generate("the", stop="at e", max_new_tokens=40)[0].text == (
            run.generate("the", stop=["at e"], max_new_tokens=40)[0].text
        )
        run.evaluate(predictions=str(tmp_path / "x.tsv"))
        assert (tmp_path / "x.tsv").is_file()


class TestARunGivenAway:
    def test_its_weights_are_enough(self, cli, trained, tiny_text, tmp_path) -> None:
        run = shutil.copytree(trained, tmp_path / "run")
        recipe = RunDirectory(run).read_recipe()
        recipe["data"]["path"] = str(tmp_path / "gone.txt")
        RunDirectory(run).write_recipe(recipe)
        (tmp_path / "other.txt").write_text("the cat sat on a red mat\nan old hen ran\n" * 4, encoding="utf-8")
        answer = cli("evaluate", run, "--data", tmp_path / "other.txt", "--json")
        assert answer.code == 0, answer.err
        assert {"uniform", "unigram", "bigram", "untrained"} <= set(answer.json["baselines"])
        assert cli("evaluate", run, "--text", "the cat sat").code == 0
        assert cli("generate", run, "the").code == 0

    def test_the_newest_weights_are_read_whatever_the_optimizer_file_is(self, cli, trained, tmp_path) -> None:
        run = shutil.copytree(trained, tmp_path / "run")
        newest = RunDirectory(run).steps()[-1]
        (RunDirectory(run).checkpoint(newest) / "optimizer.safetensors").write_bytes(b"damaged")
        answer = cli("evaluate", run, "--json", "--quiet")
        assert answer.json["step"] == newest
        assert any("is damaged" in note for note in answer.json["notes"])


def test_an_altered_model_is_measured(trained) -> None:
    run = gf.load(trained)
    plain = run.evaluate()
    hook = run.model.blocks[0].register_forward_hook(lambda block, inputs, output: torch.zeros_like(output))
    try:
        silenced = run.evaluate(model=run.model)
    finally:
        hook.remove()
    assert silenced.loss > plain.loss
    assert run.evaluate(model=run.model).loss == pytest.approx(plain.loss)


def test_losses_by_token_as_an_array(trained) -> None:
    run = gf.load(trained)
    losses = run.token_losses("the cat sat")
    assert losses.shape == (10,)
    assert float(losses.mean()) == pytest.approx(run.evaluate_texts("the cat sat")[0].loss)
    assert losses.dtype == np.float64


@pytest.mark.usefixtures("unchecked")
class TestOnTheWayIn:
    def test_a_text_file_is_enough(self, cli, tiny_text, tmp_path, monkeypatch) -> None:
        monkeypatch.chdir(tmp_path)
        answer = cli("train", tiny_text, "--set", "training.steps=4", "--samples", 8)
        assert answer.code == 0, answer.err
        assert "A character model of tiny.txt: 2 layers of width 48" in answer.err
        assert "step 4 of 4: validation loss" in answer.err
        assert RunDirectory(Path("runs/tiny")).exists()

    def test_samples_change_nothing(self, tiny, tmp_path) -> None:
        plain, shown = gf.train(tiny, out=tmp_path / "a"), gf.train(tiny, out=tmp_path / "b", samples=5)
        assert [record["loss"] for record in plain.records() if "loss" in record] == (
            [record["loss"] for record in shown.records() if "loss" in record]
        )

    def test_notes_and_csv(self, cli, tiny_file, tmp_path) -> None:
        runs = tmp_path / "runs"
        cli("train", tiny_file, "--out", runs / "a", "--note", "the first one")
        cli("train", tiny_file, "--out", runs / "b", "--set", "model.layers=2")
        cli("runs", runs / "b", "--note", "deeper, a bit")
        table = cli("runs", runs, "--csv").out.splitlines()
        columns = (
            "name,folder,status,step,steps,metric,validation_loss,data,changed,objective,generates,answers,abstains,translates"
        )
        assert table[0] == f"{columns},tainted,ancestry,best_baseline,best_baseline_value,model.layers,notes"
        assert table[1].endswith(",1,the first one")
        assert table[2].endswith(',2,"deeper, a bit"')
        records = cli("runs", runs, "--csv", "--metrics").out.splitlines()
        assert records[0].startswith("run,step,loss,grad_norm,lr")
        assert len(records) == 1 + 2 * (6 + 2)
        assert "the first one" in cli("runs", runs, "--all").out

    def test_two_runs_on_one_page(self, cli, tiny_file, tmp_path) -> None:
        for name in ("a", "b"):
            cli("train", tiny_file, "--out", tmp_path / name)
        page = tmp_path / "both.html"
        assert cli("report", tmp_path / "a", tmp_path / "b", "--out", page).code == 0
        assert "2 runs" in page.read_text(encoding="utf-8")

    def test_the_price_of_a_giant_is_known_without_building_it(self, cli, tiny_file) -> None:
        answer = cli("train", tiny_file, "--dry-run", "--set", "model.width=16384", "--set", "model.layers=24", "--json")
        assert answer.json["parameters"] > 7e10
        assert answer.json["at_least"]

    def test_the_time_of_a_small_one_is_measured(self, cli, tiny_file) -> None:
        document = cli("train", tiny_file, "--dry-run", "--json").json
        assert 0 < document["step_seconds"] < 60
        assert document["seconds"] == pytest.approx(6 * document["step_seconds"])

    def test_a_run_that_may_only_be_read_is_reported(self, cli, trained, tmp_path, monkeypatch) -> None:
        from glassformer import run_report

        write = run_report.write_atomically

        def refuses(path: Path, content: object) -> None:
            if path == RunDirectory(trained).report_file:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            write(path, content)

        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(run_report, "write_atomically", refuses)
        assert cli("report", trained).out.strip() == "run-report.html"
        assert (tmp_path / "run-report.html").is_file()

    def test_tokenizer_train_replaces_nothing_unasked_and_encode_shows_pieces(self, cli, tiny_text, tmp_path) -> None:
        words = ["tokenizer", "train", tiny_text, "--vocab", 300, "--out", tmp_path / "tok.json"]
        assert cli(*words).code == 0
        assert cli(*words).code == 2
        assert cli(*words, "--overwrite").code == 0
        answer = cli("tokenizer", "encode", tmp_path / "tok.json", "the cat", "--json")
        assert "".join(answer.json["pieces"]) == "the cat"
        assert " | " in cli("tokenizer", "encode", tmp_path / "tok.json", "the cat").err

    @pytest.mark.parametrize(
        ("key", "meant"),
        [
            ("layers=2", "model.layers"),
            ("training.learning_rate=1", "training.lr"),
            ("n_embd=4", "model.width"),
            ("model.lr=1", "training.lr"),
            ("model.block_size=8", "model.context"),
        ],
    )
    def test_keys_of_other_levels_and_libraries(self, cli, tiny_file, key, meant) -> None:
        answer = cli("train", tiny_file, "--set", key)
        assert answer.code == 2
        assert f"Did you mean '{meant}'?" in answer.sentence

    def test_studies_by_a_wrong_name_or_with_few_seeds(self, cli) -> None:
        assert "Did you mean 'positions'?" in cli("compare", "positons").sentence
        answer = cli("compare", "positions", "--seeds", 2, "--dry-run", *SMALL_STUDY, "--json")
        assert answer.code == 0, answer.err
        assert answer.json["seeds"] == 2
        assert "nothing will be decided" in answer.json["power"]

    def test_compare_dry_run(self, cli, tiny_file) -> None:
        document = cli("compare", tiny_file, "--vary", "model.positions=none", "--seeds", 6, "--dry-run", "--json").json
        assert document["runs"] == 12
        assert document["seconds_of_computing"] > 0
        assert "Power: with" in document["power"]

    def test_an_exercise_without_its_answer(self, cli, tmp_path) -> None:
        page = tmp_path / "solution.html"
        words = ["byhand", "select", "1", "--keys", "1,0;0,1;-1,-1"]
        answer = cli(*words, "--exercise", "--out", page)
        assert "key 2 = (0, 1)" in answer.out
        assert "select 1" in answer.out
        assert page.is_file()
        solved = cli(*words).out
        assert solved not in answer.out
        assert len(answer.out) < len(solved) + 400

    def test_a_function_without_scores_is_refused(self, cli, tmp_path) -> None:
        (tmp_path / "f.py").write_text("def scores(ids):\n    return ids.float()\n", encoding="utf-8")
        answer = cli("check", f"{tmp_path / 'f.py'}:scores", "--vocabulary", 11, "--context", 8)
        assert answer.code == 2
        assert "[B, T, V]" in answer.sentence


@pytest.mark.parametrize("as_json", [False, True])
def test_an_ascii_terminal(trained, tmp_path, as_json: bool) -> None:
    """What it cannot show is shown by number; JSON stays JSON."""
    import os

    words = [sys.executable, "-m", "glassformer", "tokenizer", "encode", str(trained / "tokenizer.json"), "the cat"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    done = subprocess.run(
        [*words, *(["--json"] if as_json else [])], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    if as_json:
        assert "".join(json.loads(done.stdout)["pieces"]) == "the cat"


@pytest.mark.usefixtures("unchecked")
class TestStudiesOfTokenizers:
    WORDS = ("--metric", "bits_per_byte", "--seeds", 2, "--on", "inline", "--no-store", "--json")

    def test_the_first_token_is_left_out_for_all(self, cli, tiny_file, tmp_path) -> None:
        """Ten bytes for one tokenizer and one for another: paired all the same, on the same bytes."""
        long_enough = ["--set", "training.steps=60", "--set", "training.lr=0.03"]  # to beat the baselines
        vary = ["--vary", "tokenizer={kind: bpe, vocab: 300}", *long_enough]
        answer = cli("compare", tiny_file, *vary, *self.WORDS, "--out", tmp_path / "study")
        assert answer.code == 0, answer.err
        assert answer.json["verdicts"][0]["difference"]["value"] is not None

    def test_what_cannot_be_compared_is_refused_before_training(self, cli, tiny, tmp_path) -> None:
        validation = tmp_path / "validation.txt"
        validation.write_text("the zebra sat\nquite jolly vixens ran\n" * 9, encoding="utf-8")
        tiny["data"] = {**tiny["data"], "validation": str(validation)}
        file = tmp_path / "tiny.yaml"
        file.write_text(dump_yaml(tiny), encoding="utf-8")
        answer = cli("compare", file, "--vary", "tokenizer=word", *self.WORDS, "--out", tmp_path / "study")
        assert answer.code == 2
        assert "cannot be compared by bits_per_byte" in answer.sentence
        assert not (tmp_path / "study").exists()


@pytest.mark.usefixtures("unchecked")
def test_a_recipe_may_lie_beside_its_text(cli, tiny, tiny_text, tmp_path, monkeypatch) -> None:
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    away.mkdir()
    shutil.copy(tiny_text, home / "text.txt")
    (home / "mine.yaml").write_text(dump_yaml({**tiny, "data": {**tiny["data"], "path": "text.txt"}}), encoding="utf-8")
    monkeypatch.chdir(away)
    assert cli("train", home / "mine.yaml", "--out", away / "run").code == 0
    monkeypatch.chdir(home)
    assert cli("train", "mine.yaml", "--out", home / "run").code == 0
    monkeypatch.chdir(away)
    assert cli("evaluate", home / "run").code == 0
    assert cli("train", home / "run", "--resume", "--set", "training.steps=8").code == 0
