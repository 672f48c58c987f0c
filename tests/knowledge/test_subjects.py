"""Whom questions are about, in which wordings, and names that nobody has."""

from __future__ import annotations

import pytest

from glassformer.knowledge.subjects import invented_names, subject, wordings


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Where was Ann Lee born?", "Ann Lee"),
        ("Where was Francisco Cervantes de Salazar born?", "Francisco Cervantes de Salazar"),
        ("What is the birth place of Mimoch Dadallach?", "Mimoch Dadallach"),
        ("Where was Émile Zola born?", "Émile Zola"),
        ("Where was Nadar born?", "Nadar"),
        ("where was it?", "was it"),
    ],
)
def test_whom_a_question_is_about(question, name):
    assert subject(question) == name


def test_wordings_are_what_several_people_are_asked_in():
    asked = [f"Where was {name} born?" for name in ("Ann Lee", "Bob Day", "Cy Orr")]
    asked += [f"Is {name} from here?" for name in ("Ann Lee", "Bob Day")] + ["What of Ann Lee?"]
    assert wordings(asked) == ["Where was {name} born?", "Is {name} from here?"]


def test_invented_names_exist_nowhere_and_follow_from_the_seed():
    names = ["Ann Lee", "Bob Day", "Cy van Orr", "Nadar"]
    known = {*names, "Ann Day"}
    found = invented_names(names, known.__contains__, many=4, seed=1)
    assert len(found) == 4
    assert not set(found) & known
    assert all(name.split()[0] in ("Ann", "Bob", "Cy") and name.split()[1] in ("Lee", "Day", "Orr") for name in found)
    assert found == invented_names(names, known.__contains__, many=4, seed=1)
    assert invented_names(["Nadar"], known.__contains__, many=4, seed=1) == []
