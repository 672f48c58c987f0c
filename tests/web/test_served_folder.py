"""Names lead to folders inside, and to nothing else."""

from __future__ import annotations

import os

import pytest
from tests.refusals import refused

from glassformer.foundation.errors import RunError, UsageError
from glassformer.foundation.files import open_file, refuse_links
from glassformer.study.directory import StudyDirectory
from glassformer.web.served_folder import NotFound, ServedFolder


def test_by_hand(folder, make_run) -> None:
    place = ServedFolder(folder)
    assert place.run("one").root == folder / "one"
    assert place.name_of(folder / "a" / "b") == "a/b"
    for name in ("absent", "", "one/..", "/one", "one/", "..", "a\x00"):
        with pytest.raises(NotFound):
            place.run(name)
    trial = make_run(folder / "study" / "trials" / "base" / "seed-0")
    StudyDirectory(folder / "study").plan_file.write_text("x: 1")
    study = place.study_of(trial)
    assert study is not None
    assert place.name_of(study.root) == "study"
    assert [place.name_of(one.root) for one in place.studies()] == ["study"]
    assert place.study_of(place.run("one")) is None


def test_a_folder_that_is_itself_a_run_has_its_own_name(folder) -> None:
    assert ServedFolder(folder / "one").run("one").root == folder / "one"


@pytest.mark.parametrize("name", ["../x", "", ".hidden", "a b", "x/../y", "/x", "-x", "a" * 200])
def test_new_names_are_plain(folder, name) -> None:
    with pytest.raises(UsageError):
        ServedFolder(folder).new(name)
    assert ServedFolder(folder).new("my-run.2") == folder / "my-run.2"


def test_a_new_name_leads_into_no_link_and_no_file(folder) -> None:
    (folder.parent / "outside").mkdir()
    (folder / "link").symlink_to(folder.parent / "outside")
    (folder / "broken").symlink_to(folder.parent / "absent")
    (folder / "file").write_text("")
    for name in ("link", "link/new", "broken"):
        with refused(UsageError, "outside-folder"):
            ServedFolder(folder).new(name)
    for name in ("file", "file/new", "file/new/run"):
        with refused(UsageError, "name-is-a-file", "'file'"):
            ServedFolder(folder).new(name)


def test_what_is_not_there_is_no_link(folder) -> None:
    ServedFolder(folder)
    refuse_links(folder / "one" / "absent" / "deeper")
    (folder / "one" / "dangling").symlink_to(folder / "nowhere")
    for name in ("dangling", "dangling/x"):
        with refused(RunError, "link-in-served-folder", "dangling"):
            refuse_links(folder / "one" / name)
    with pytest.raises(FileNotFoundError):
        open_file(folder / "one" / "absent" / "deeper")
    with refused(RunError, "link-in-served-folder"):
        open_file(folder / "one" / "dangling", os.O_WRONLY | os.O_CREAT)
    assert not (folder / "nowhere").exists()
