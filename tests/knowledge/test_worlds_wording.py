"""What is told about people: different wordings that hold the facts, and questions."""

from __future__ import annotations

from glassformer.knowledge.worlds_people import Register
from glassformer.knowledge.worlds_wording import BIRTHS, OTHERS, lines_about, questions_about

PEOPLE = list(Register(size=300, regions=3, places=4, sound=0.0, seed=1).people())


def test_each_wording_tells_name_and_place_and_none_is_used_twice():
    for person in PEOPLE:
        *births, other = lines_about(person, births=4)
        assert len(births) == 4
        assert len({line.replace(person.name, "") for line in births}) == 4
        assert all(person.name in line and person.place in line and line.endswith(".") for line in births)
        assert person.name in other
        assert person.home in other


def test_all_wordings_are_used():
    told = {line for person in PEOPLE for line in lines_about(person, births=3)}
    for wording in (*BIRTHS, *OTHERS):
        beginning, _, rest = wording.partition("{")
        pieces = [piece.partition("}")[2] for piece in rest.split("{")]
        assert any(line.startswith(beginning) and all(piece in line for piece in pieces) for line in told), wording
    assert all(len(lines_about(person, births=99)) == len(BIRTHS) + 1 for person in PEOPLE[:3])


def test_questions_ask_about_the_person_in_different_wordings():
    asked = questions_about("Ann Lee")
    assert asked[0] == "Where was Ann Lee born?"
    assert len(set(asked)) == 3
