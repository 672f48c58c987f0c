"""The Study a user holds: read from its folder, with verdicts, a table and notes; without torch."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.foundation.errors import RunError, UnknownName
from glassformer.foundation.files import read_json, write_json
from glassformer.foundation.metrics import Metric
from glassformer.pages.page import Banner, Listing, Paragraph, Verdicts
from glassformer.runs.directory import RunDirectory
from glassformer.study.planning.variant_facts import VariantBook
from glassformer.study.reporting.study_notes import EARLY
from glassformer.study.reporting.study_report import study_page
from glassformer.study.study import Study, over_seeds

BASE = [1.50, 1.52, 1.49, 1.51, 1.53, 1.48]
BETTER = [value - 0.2 + 0.001 * at for at, value in enumerate(BASE)]
SAME = [value + 0.0002 * (-1) ** at for at, value in enumerate(BASE)]


@pytest.fixture
def study(made_up, tmp_path) -> Study:
    return made_up.study(tmp_path / "study", {"base": BASE, "alibi": BETTER, "rotary": SAME})


def test_verdicts_come_from_the_folder(study):
    assert {verdict.variant: verdict.verdict for verdict in study.verdicts} == {"alibi": "better", "rotary": "same"}
    assert study.verdict("alibi").evidence.seeds == 6
    with pytest.raises(UnknownName, match="Did you mean 'alibi'"):
        study.verdict("alibii")
    assert study.metric.name == "loss"


def test_the_table_has_result_and_cost_of_every_variant(study):
    base, alibi, rotary = study.table
    assert (base["variant"], base["verdict"], alibi["verdict"], rotary["verdict"]) == ("base", "", "better", "same")
    assert [row["parameters"] for row in study.table] == [100, 110, 120]
    assert alibi["flops"] == 1001 * 24
    assert alibi["seconds"] == pytest.approx(1680 / 840.0)
    assert base["seeds"] == 6
    assert base["loss"]["value"] == pytest.approx(np.mean(study.seed_values("base")))
    assert base["loss"]["low"] < base["loss"]["value"] < base["loss"]["high"]
    assert alibi["difference"]["value"] == pytest.approx(-0.2, abs=0.01)


def test_means_over_seeds_by_hand():
    assert over_seeds([]).value is None
    assert over_seeds([2.0]).to_dict() == {"value": 2.0, "low": None, "high": None, "n": 1}
    two = over_seeds([1.0, 3.0])  # sd sqrt(2), t(1) at 97.5 % is 12.7062
    assert two.value == 2.0
    assert two.high == pytest.approx(2.0 + 12.7062047, abs=1e-6)


def test_a_share_is_shown_inside_its_range(made_up, tmp_path):
    near_one = [0.999, 0.9, 0.999, 0.999, 0.999, 0.999]  # by t alone the mean reaches 1.025
    near_zero = [1.0 - value for value in near_one]
    share = Metric("loss", "of all items", lower_is_better=False, answers=True).to_dict()
    study = made_up.study(tmp_path / "study", {"base": near_one, "alibi": near_zero}, metric="loss", measured=share)
    base, alibi = (row["loss"] for row in study.table)
    assert over_seeds(study.seed_values("base")).high > 1.0
    assert base["high"] == 1.0
    assert 0.9 < base["low"] < base["value"] < 1.0
    assert over_seeds(study.seed_values("alibi")).low < 0.0
    assert alibi["low"] == 0.0


def test_the_json_of_the_contract(study):
    document = json.loads(json.dumps(study.to_dict(), allow_nan=False))
    first = document["verdicts"][0]
    keys = {"variant", "verdict", "difference", "p", "p_corrected", "seeds", "seeds_needed", "reason", "sentence"}
    assert keys <= set(first)
    assert set(first["difference"]) >= {"value", "low", "high", "n"}
    assert set(first["seeds_needed"]) >= {"value", "low", "high"}
    study.write()
    assert read_json(study.directory.results_file)["verdicts"] == document["verdicts"]


def test_text_and_html_hold_every_verdict(study):
    for shown in (str(study), study._repr_html_().replace("<strong>", "").replace("</strong>", "")):
        assert "alibi is better" in shown
        assert "rotary is the same within" in shown
    assert repr(study).endswith("alibi: better, rotary: same)")
    assert "<script" not in study._repr_html_()


def test_commands_name_the_plugins_of_the_study(made_up, tmp_path):
    wide = made_up.study(
        tmp_path / "study",
        {"base": BASE, "alibi": [value + 0.1 * (-1) ** at for at, value in enumerate(BASE)]},
        planned_effect=0.2,
    )
    book = VariantBook(wide.book.variants, ({"file": "my part.py", "sha256": "ab"},))
    book.write(wide.directory.variants_file)
    study = Study.load(wide.folder)
    assert "--plugin 'my part.py' --first-seed 6" in study.verdicts[0].sentence
    again = next(block for block in study_page(study).sections if isinstance(block, Listing))
    assert "--plugin 'my part.py'" in again.text


def test_a_study_on_its_way(made_up, tmp_path):
    study = made_up.study(tmp_path / "study", {"base": BASE, "alibi": [1.3, None, 1.2]})
    verdict = study.verdicts[0]
    assert verdict.verdict == "not decided"
    assert "1 of the 6 planned seeds have run" in verdict.reason
    assert study.table[1]["seeds"] == 2


def test_a_leak_that_was_not_trained(made_up, tmp_path):
    study = made_up.study(tmp_path / "study", {"base": BASE, "cheat": []}, leaks={"cheat": "sees the future at 3."})
    assert study.verdicts[0].verdict == "invalid"
    assert study.verdicts[0].sentence == "cheat is invalid: it cheats and was not trained: sees the future at 3."
    assert "a check found a leak) in 6 of 6 seeds" in study.verdicts[0].reason
    assert "cheat: sees the future at 3." in study.notes


def test_a_leak_that_was_trained_shows_what_one_would_have_believed(made_up, tmp_path):
    losses = {"base": BASE, "cheat": BETTER}
    study = made_up.study(tmp_path / "study", losses, leaks={"cheat": "sees all."}, allow_leaks=True)
    assert study.verdicts[0].verdict == "invalid"
    assert "Without the check one would have believed: loss lower by" in study.verdicts[0].sentence


def test_failures_without_a_folder_are_remembered(made_up, tmp_path):
    study = made_up.study(tmp_path / "study", {"base": BASE, "alibi": [1.3, 1.3, None, 1.3, 1.3, 1.3]})
    told = Study(study.directory, {("alibi", 2): "its process ended by signal 9"})
    told.write()
    again = Study.load(tmp_path / "study")
    assert again.verdicts[0].verdict == "invalid"
    assert "no result in 1 of 6 seeds (seed 2)" in again.verdicts[0].reason
    assert "alibi, seed 2: its process ended by signal 9" in again.notes


def test_notes_say_what_is_unlike(made_up, tmp_path):
    study = made_up.study(tmp_path / "study", {"base": BASE, "alibi": BETTER})
    assert study.notes == []
    environment = RunDirectory(study.folder / "trials" / "alibi" / "seed-4")
    environment.write_environment({**environment.read_environment(), "torch": "8.8"})
    assert Study.load(study.folder).notes == [
        "The trials ran in different environments: torch is '9.9' for base, seed 0 and '8.8' for alibi, seed 4."
    ]
    plugin = {"file": "mine.py", "sha256": "0123456789"}  # edited while the study ran
    environment.write_environment({**environment.read_environment(), "torch": "9.9", "plugins": [plugin]})
    assert "the code of plugins is '' for base, seed 0 and '01234567' for alibi, seed 4" in Study.load(study.folder).notes[0]


def test_who_is_not_above_a_bigram_is_told(made_up, tmp_path):
    study = made_up.study(tmp_path / "study", {"base": [value + 0.5 for value in BASE], "alibi": BETTER})
    assert [note for note in study.notes if "bigram" in note] == [
        "These verdicts are about the beginning of training: base is not better than the bigram baseline yet. Raise "
        "training.steps to see what holds later."
    ]


def test_a_verdict_of_a_beginning_says_so_above_the_verdicts(made_up, tmp_path):
    """Two green words over a sentence that says that they mean little are a contradiction."""
    worse = [value + 0.5 for value in BASE]
    for name, losses, early in (("all", worse, True), ("change", BASE, False)):
        study = made_up.study(tmp_path / name, {"base": losses, "alibi": worse})
        verdicts = [block for block in study_page(study).sections if isinstance(block, Banner | Verdicts | Paragraph)]
        first = next(at for at, block in enumerate(verdicts) if isinstance(block, Verdicts))
        above = [block.text for block in verdicts[:first] if isinstance(block, Banner)]
        assert [EARLY in text for text in above] == [True] * early
        below = [block.text for block in verdicts[first:] if isinstance(block, Paragraph)]
        assert sum("bigram" in text for text in below) == (not early)


def test_a_damaged_trial_does_not_hide_the_others(study):
    (study.folder / "trials" / "alibi" / "seed-5" / "state.json").write_text("{")
    again = Study.load(study.folder)
    assert again.table[1]["seeds"] == 5
    assert again.verdict("rotary").verdict == "same"
    assert any("damaged" in note for note in again.notes)


def test_a_folder_that_is_no_study(tmp_path):
    with refused(RunError, "not-a-study"):
        Study.load(tmp_path)


def test_reading_a_study_loads_no_torch(study):
    program = (
        "import sys, glassformer as gf; s = gf.Study.load(sys.argv[1]); str(s); s.report(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(study.folder)], check=False).returncode == 0


def test_words_by_other_rules_stay_beside_the_new_ones(made_up, tmp_path):
    study = made_up.study(
        tmp_path / "study", {"base": BASE, "alibi": [value - 0.2 + 0.001 * at for at, value in enumerate(BASE)]}
    )
    study.write()
    file = study.directory.results_file
    document = {key: value for key, value in read_json(file).items() if key != "rules"}
    document["verdicts"][0]["verdict"] = "not decided"
    write_json(file, document)
    for _ in range(2):  # the second time from the file that the new rules wrote
        again = Study.load(study.folder)
        assert again.words_before == {"alibi": "not decided"}
        assert again.notes[0] == "By the rules before, alibi was not decided; it is better now."
        again.write()
