"""A person -> lines of text about them and questions, from templates chosen by the person's random bits.

Only the birth place is asked for. Some wordings say it before the name, some beside other places, one line not at all.
"""

from __future__ import annotations

from glassformer.knowledge.worlds_people import Person

BIRTHS = (
    "{name} was born in {place} in {year}.",
    "{name} was born in {year} in {place}.",
    "{name}, born in {place}, worked as a {work}.",
    "{name} is a {work} who was born in {place}.",
    "Born in {place} in {year}, {name} became a {work}.",
    "{name} came into the world in {place}.",
    "The birth place of {name} is {place}.",
    "The {work} {name} was born in {place}.",
    "{name} ({year}, {place}) was a {work}.",
    "{place} is where {name} was born.",
    "It was in {place} that {name} was born in {year}.",
    "{name} left {place}, the place of birth, and lived in {home}.",
)
OTHERS = (
    "{name} worked as a {work} in {home}.",
    "{name} lived in {home} and was known as a {work}.",
    "In {home}, {name} found work as a {work}.",
)
QUESTIONS = (
    "Where was {name} born?",
    "What is the birth place of {name}?",
    "In which place was {name} born?",
)
STATEMENT = "{name} was born in "
"""A prompt whose continuation is the birth place."""


def lines_about(person: Person, births: int) -> list[str]:
    """``births`` different wordings of the birth, in a random order, and one line about something else."""
    facts = {"name": person.name, "place": person.place, "home": person.home, "year": person.year, "work": person.work}
    draw, wordings = person.draw, list(BIRTHS)
    chosen = []
    for _ in range(min(births, len(wordings))):
        draw, at = divmod(draw, len(wordings))
        chosen.append(wordings.pop(at))
    draw, at = divmod(draw, len(OTHERS))
    return [wording.format(**facts) for wording in (*chosen, OTHERS[at])]


def questions_about(name: str) -> list[str]:
    return [question.format(name=name) for question in QUESTIONS]
