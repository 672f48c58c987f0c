"""Labelled splits: the labels there are, the balance, what is refused, and texts that were trained on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.data import near_duplicates
from glassformer.data.config import DataConfig
from glassformer.data.labels import labelled_texts as module
from glassformer.data.labels.labelled_texts import Labels, load_labels, rows_of
from glassformer.data.reading.corpus import LabelSource, Target
from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.foundation.errors import ConfigError, DataError


def files(folder: Path, train: str, **more: str) -> DataConfig:
    paths = {}
    for name, text in {"path": train, **more}.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
        paths[name] = str(folder / f"{name}.txt")
    return DataConfig.parse({**paths, "format": "label-text"})


TRAIN = "".join(f"{['bad', 'good', 'so'][n % 3]} text number {n}\n" for n in range(23))


def test_splits_labels_and_balance(tmp_path: Path) -> None:
    labels = Labels(files(tmp_path, TRAIN, test="good new one\nbad text number 0\n"))
    assert labels.label_names == ("bad", "good", "so")
    assert labels.names == ["train", "validation", "test"]
    train, validation, test = (labels.split(name) for name in labels.names)
    assert len(train) + len(validation) == 23
    assert len(validation) == 2
    assert not set(train.ids) & set(validation.ids)
    assert test.labels.tolist() == [1, 0]
    assert sum(train.counts) == len(train)
    assert test.balance() == "2 texts: bad 50.0%, good 50.0%, so 0.0%"


def test_texts_that_were_trained_on_are_told(tmp_path: Path) -> None:
    labels = Labels(files(tmp_path, TRAIN, test="good new one\n" + "bad text number 0\n" + "so text number 5\n"))
    train = labels.split("train").texts
    test = labels.split("test")
    assert test.seen is not None
    assert test.seen.tolist() == [False, "text number 0" in train, "text number 5" in train]
    assert any("occur in the training texts" in note for note in labels.notes)


def test_labels_that_may_be_none_or_the_same_are_named(tmp_path: Path) -> None:
    odd = "".join(f"{['Good', 'N/A', 'good', 'bad', 'NaN'][n % 5]} text number {n}\n" for n in range(40))
    notes = Labels(files(tmp_path, odd)).notes
    assert [name for name in ("'Good', 'good'", "'N/A'", "'NaN'", "'bad'") if any(name in note for note in notes)] == [
        "'Good', 'good'",
        "'N/A'",
        "'NaN'",
    ]


@pytest.mark.parametrize("sign", [";", "|", ","])
def test_several_labels_in_one_cell_are_told(sign: str, tmp_path: Path) -> None:
    """Few combinations are as good as classes, so they are not refused."""

    def notes(*labels: str) -> list[str]:
        rows = "".join(f'text {n},"{labels[n % len(labels)]}"\n' for n in range(60))
        (tmp_path / "t.csv").write_text("text,label\n" + rows)
        return [note for note in Labels(DataConfig(path=str(tmp_path / "t.csv"))).notes if "multilabel" in note]

    assert len(notes(f"a{sign}b", f"b{sign} c", f"a{sign}c", "a")) == 1
    assert not notes(f"late{sign} or lost", "wet", "dry")  # a sign in a name


@pytest.mark.parametrize("swap", [False, True])
def test_rows_between_an_open_quote_and_a_later_one_are_told(swap: bool, tmp_path: Path) -> None:
    """No csv reader can know: the file is valid."""
    rows = ["text,label", '"a, b\nc",x', '"late,y', "b,x", 'pipe 5",y', "d,y", ""]
    if swap:
        rows = ["label,text", 'x,"a, b\nc"', 'y,"late', 'x,pipe 5"', "y,d", ""]
    file = tmp_path / "t.csv"
    file.write_text("\n".join(rows))
    notes = Labels(DataConfig.parse({"path": str(file), "split": {"validation": 0.0}})).notes
    assert [note for note in notes if "quote left open" in note] == [note for note in notes if "t.csv:4" in note]
    assert any("t.csv:4" in note for note in notes)


def test_a_number_with_a_comma_gets_a_remedy(tmp_path: Path) -> None:
    for number in ("12,5", "1,200.50"):
        config = files(tmp_path, "".join(f"{number if n == 7 else n} text {n}\n" for n in range(30)))
        with refused(DataError, "not-a-number", number, "comma"):
            Labels(config, target="number").split("train")


def test_numbers_are_ordered_by_size(tmp_path: Path) -> None:
    text = "".join(f"{n % 12} word {n}\n" for n in range(60))
    assert Labels(files(tmp_path, text)).label_names == tuple(str(n) for n in range(12))


@pytest.mark.parametrize("odd", ["²", "--5"])
def test_what_only_looks_like_a_number_is_a_word(tmp_path: Path, odd: str) -> None:
    text = "".join(f"{(odd, '10', '-2')[n % 3]} word {n}\n" for n in range(60))
    assert Labels(files(tmp_path, text)).label_names == ("-2", "10", odd)


def test_an_unknown_label_in_the_validation_file(tmp_path: Path) -> None:
    with refused(DataError, "unknown-label", "validation.txt", "line 2", "'great'"):
        Labels(files(tmp_path, TRAIN, validation="good a\ngreat b\n"))


def test_one_class_only(tmp_path: Path) -> None:
    with refused(DataError, "one-label"):
        Labels(files(tmp_path, "good a\ngood b\ngood c\n"))


def test_a_column_that_is_not_labels(tmp_path: Path) -> None:
    with refused(DataError, "too-many-labels", "data.label_column"):
        Labels(files(tmp_path, "".join(f"id{n} text {n}\n" for n in range(9))))


def test_the_split_is_the_same_whatever_is_asked_first_and_changed_files_are_refused(tmp_path: Path) -> None:
    config = files(tmp_path, TRAIN)
    first = Labels(config)
    assert Labels(config).split("train").ids == first.split("train").ids
    (tmp_path / "path.txt").write_text(TRAIN + "good more\n", encoding="utf-8")
    with refused(DataError, "text-changed"):
        Labels(config, expect=first.record)


def test_a_validation_file_that_comes_or_goes_would_divide_the_texts_anew(tmp_path: Path) -> None:
    rows = "label\ttext\n" + "".join(f"{'ab'[i % 2]}\ttext {i}\n" for i in range(20))
    with_own = files(tmp_path, rows, validation="label\ttext\na\tone\nb\ttwo\n")
    without = with_own.model_copy(update={"validation": None})
    with refused(DataError, "text-missing"):
        Labels(without, expect=Labels(with_own).record)
    with refused(DataError, "text-missing", "data.validation"):
        Labels(with_own, expect=Labels(without).record)


@pytest.mark.parametrize("target", ["several", "number"])
def test_a_set_of_classes_has_no_other_target(target: Target, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "speeches").mkdir()
    for name in ("train_classify.tsv", "train_lm.txt"):
        (tmp_path / "speeches" / name).write_text("0\tone text\n1\tanother\n" * 5)
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    with refused(ConfigError, "set-has-classes", "data.set=speeches"):
        Labels(DataConfig(set="speeches"), target=target)


def test_a_set_without_labels(tmp_path: Path) -> None:
    with refused(ConfigError, "no-labels", "data.set=docstrings"):
        Labels(DataConfig(set="docstrings"))


def test_a_file_of_a_users_own_is_read_in_the_same_way(tmp_path: Path) -> None:
    labels = Labels(files(tmp_path, TRAIN))
    own = tmp_path / "own.txt"
    own.write_text("so what\n", encoding="utf-8")
    assert labels.file(own).labels.tolist() == [2]


@pytest.mark.realdata
def test_the_sets_have_the_sizes_of_the_literature(real_data: Path) -> None:
    sst2, boolq, speeches = (Labels(DataConfig(set=name)) for name in ("sst2", "boolq", "speeches"))
    assert len(sst2.split("train")) + len(sst2.split("validation")) == 6920
    assert len(sst2.split("test:dev")) == 872
    assert len(boolq.split("train")) + len(boolq.split("validation")) == 8000
    assert len(boolq.split("test:rest")) == 1427
    np.testing.assert_allclose(boolq.split("test:dev").counts.max() / 1635, 0.6012, atol=5e-5)
    assert speeches.label_names == ("Obama", "W. Bush", "H. Bush")
    assert len(speeches.split("test:dev")) == 375


@pytest.mark.realdata
def test_three_quarters_of_the_speeches_test_were_trained_on(real_data: Path) -> None:
    dev = Labels(DataConfig.parse({"set": "speeches", "split": {"validation": 0.0}})).split("test:dev")
    assert dev.seen is not None
    assert int(dev.seen.sum()) == 281


def test_a_tokenizer_is_learned_once_from_the_same_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    kind = type(TOKENIZERS.parse("word"))
    real, learned = kind.train, []
    monkeypatch.setattr(kind, "train", lambda self, texts: learned.append(1) or real(self, texts))

    def settings(data: DataConfig, **more: int) -> dict[str, object]:
        return load_labels(data, TOKENIZERS.parse({"kind": "word", **more})).tokenizer.settings()

    data = files(tmp_path, TRAIN)
    plain = real(TOKENIZERS.parse("word"), Labels(data).training_texts).settings()
    assert settings(data) == settings(data) == plain
    assert len(learned) == 1
    assert settings(data, min_count=1) != plain
    assert settings(files(tmp_path, TRAIN.replace("text", "word"))) != plain
    assert len(learned) == 3
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "path.txt"))  # no folder can be made there
    assert settings(files(tmp_path, TRAIN)) == plain


def test_a_label_that_is_only_held_out_is_told(tmp_path: Path) -> None:
    data = files(tmp_path, TRAIN + "rare one alone\n")
    told = []
    for seed in range(40):
        labels = Labels(data.model_copy(update={"split": data.split.model_copy(update={"seed": seed})}))
        lost = not labels.split("train").counts[list(labels.label_names).index("rare")]
        assert any("No text to train on has the label rare" in note for note in labels.notes) == lost
        told.append(lost)
    assert 0 < sum(told) < 40


def stratified(data: DataConfig, **split: object) -> DataConfig:
    return DataConfig.parse({**data.to_dict(), "split": {"validation": 0.2, **split}})


def test_a_stratified_share_has_every_label(tmp_path: Path) -> None:
    """90 of one label, 9 of another, 2 of a third: by chance alone the rare ones are often not held out."""
    order = np.random.default_rng(3).permutation(101)
    kinds = ["often"] * 90 + ["seldom"] * 9 + ["twice"] * 2
    data = files(tmp_path, "".join(f"{kinds[n]} text number {n}\n" for n in order))
    plain, missing = {}, []
    for seed in range(6):
        part = Labels(stratified(data, seed=seed, stratify=True))
        assert part.split("validation").counts.tolist() == [18, 2, 1]
        assert part.split("train").counts.tolist() == [72, 7, 1]
        plain[seed] = Labels(stratified(data, seed=seed))
        missing += [seed] if 0 in plain[seed].split("validation").counts else []
    assert missing
    told = "No validation text has the label twice; data.split.stratify=true holds out a share of each label."
    assert told in plain[missing[0]].notes
    same, other = (Labels(stratified(data, seed=1, stratify=True)).split("validation").ids for _ in range(2))
    assert same == other != Labels(stratified(data, seed=2, stratify=True)).split("validation").ids


def test_several_labels_are_not_advised_to_stratify(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [{"text": f"text number {n}", "label": ["often", "once"] if n == 1 else ["often"]} for n in range(20)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    labels = Labels(DataConfig(path=str(file)), target="several")
    assert 0 in labels.split("validation").counts
    assert not any("data.split.stratify" in note for note in labels.notes)


def test_without_it_the_draw_is_what_it_was(tmp_path: Path) -> None:
    data = files(tmp_path, TRAIN)
    assert "stratify" not in data.non_defaults().get("split", {})
    assert Labels(data).split("validation").ids == ("path.txt:1", "path.txt:18")


def test_one_text_of_a_label_is_trained_on(tmp_path: Path) -> None:
    data = files(tmp_path, "once alone\n" + "".join(f"often text number {n}\n" for n in range(9)))
    assert Labels(stratified(data, stratify=True)).split("train").counts.tolist() == [7, 1]


@pytest.fixture
def source(tmp_path: Path) -> LabelSource:
    module._rows.clear()
    file = tmp_path / "a.csv"
    file.write_text("text,label,other\nthe cat,1,x\nthe dog,0,y\nthe hen,,z\n")
    return LabelSource("a", (file,), text_column="text", label_column="label", skip_bad_lines=True)


def test_read_once_and_again_when_the_file_or_the_way_of_reading_changes(source: LabelSource, monkeypatch) -> None:
    real, reads = module.read_rows, []
    monkeypatch.setattr(module, "read_rows", lambda *args, **more: reads.append(1) or real(*args, **more))
    rows, skipped = rows_of(source)
    assert [(row.text, row.label) for row in rows] == [("the cat", "1"), ("the dog", "0")]
    assert rows_of(source) == (rows, skipped)
    assert (skipped.count, len(reads)) == (1, 1)
    assert [row.label for row in rows_of(replace(source, label_column="other"))[0]] == ["x", "y", "z"]
    assert len(rows_of(replace(source, last=1))[0]) == 1
    source.files[0].write_text("text,label,other\nthe cow,1,x\n")
    assert [row.text for row in rows_of(source)[0]] == ["the cow"]
    assert len(reads) == 4


def test_a_file_that_changes_while_it_is_read_is_refused(source: LabelSource, monkeypatch) -> None:
    sums = iter("ab")
    monkeypatch.setattr("glassformer.data.reading.sources.fingerprint_of", lambda _: next(sums))
    with refused(DataError, "changed-while-read"):
        rows_of(source)


class TestCopies:
    """A copy in capitals or with more spaces is a copy; a changed word makes a near-duplicate."""

    def labels(self, folder: Path, *, test: list[str]) -> Labels:
        rows = [
            f"order {n} of the {animal} arrived too late and was wet,{animal}" for n in range(40) for animal in ("dog", "cat")
        ]
        (folder / "train.csv").write_text("\n".join(["text,label", *rows]))
        (folder / "test.csv").write_text("\n".join(["text,label", *test]))
        return Labels(DataConfig(path=str(folder / "train.csv"), test=str(folder / "test.csv"), split={"validation": 0.0}))

    def test_case_and_spacing_hide_no_copy(self, tmp_path: Path) -> None:
        copies = [f"ORDER  {n} of the DOG   arrived too late and was wet,dog" for n in range(10)]
        labels = self.labels(tmp_path, test=[*copies, "an owl of quite another kind flew by the window,cat"])
        seen = labels.split("test").seen
        assert seen is not None
        assert seen.tolist() == [True] * 10 + [False]

    def test_a_changed_word_is_counted_in_a_note(self, tmp_path: Path) -> None:
        labels = self.labels(tmp_path, test=["order 3 of the dog arrived too late and was wet again,dog", "owls,cat"])
        assert labels.split("test").seen is not None
        assert not labels.split("test").seen.any()  # type: ignore[union-attr]
        assert labels.near_duplicates("test").count == 1
        assert sum("near-duplicates" in note for note in labels.notes) == 1


def test_few_texts_of_each_label_are_drawn_by_the_seed(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("text,label\n" + "".join(f"text {n},{'rare' if n % 5 == 0 else 'common'}\n" for n in range(100)))
    config = DataConfig(path=str(file), few=3)
    whole, drawn = Labels(DataConfig(path=str(file))), [Labels(config.drawn_by(seed)) for seed in (0, 0, 1)]
    first, again, other = (labels.split("train") for labels in drawn)
    assert first.counts.tolist() == [3, 3]
    assert first.ids == again.ids
    assert first.ids != other.ids
    assert set(first.ids) <= set(whole.split("train").ids)
    assert drawn[2].split("validation").ids == whole.split("validation").ids
    assert config.model_copy(update={"few_seed": 7}).drawn_by(1).few_seed == 7
    with refused(DataError, "fewer-than-few"):
        Labels(DataConfig(path=str(file), few=30))


def test_more_texts_than_are_compared_are_not_spelled_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_duplicates, "MOST_TEXTS", 3)
    monkeypatch.setattr(module, "symbols", lambda text: pytest.fail("four bytes for each character"))
    labels = Labels(files(tmp_path, TRAIN.replace("text", "word")))
    assert labels.near_duplicates("validation").pairs is None
    assert labels.near_duplicates("train").pairs is None
