"""docs/course: notebooks are the lessons, every cell runs, every figure of a lesson was printed by one of its snippets."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from glassformer.cli.main import run as command
from glassformer.runs.diagnosis import Facts, diagnose

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))
try:
    from make_notebooks import COURSE, LESSONS, blocks_of, notebook_of
finally:
    sys.path.remove(str(DOCS))

PRINTED: dict[str, str] = json.loads((DOCS / "measurements" / "course.json").read_text(encoding="utf-8"))
SHORTER = (
    (r"(training\.steps=|[^-]steps: )\d+", r"\g<1>2"),
    (r"(evaluation\.every=|every: )\d+", r"\g<1>1"),
    (r"(\"evaluation\.every\": )\d+", r"\g<1>2"),
    (r"(\"training\.steps\": )\d+", r'\g<1>2, "model.width": 24'),
    (r"range\(6000\)", "range(300)"),
    (r"--seeds \d+", "--seeds 2 --jobs 1"),
    (r"--max-new-tokens \d+", "--max-new-tokens 3"),
)
"""The same cells in seconds: patterns and what stands there instead."""
FROM_ELSEWHERE = {
    "4-positions": "".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "lab").glob("*.md"))),
    "5-leak": (DOCS / "reweight.md").read_text(encoding="utf-8"),
    "7-labels": f"{100 * 2033 / 3270:.2f}",  # the share of yes in BoolQ's dev file, by its counts
}
"""What else a lesson's figures may come from, beside its own snippets."""


def lesson(name: str) -> str:
    return (COURSE / f"{name}.md").read_text(encoding="utf-8")


def code_cells(name: str) -> list[str]:
    document = json.loads((COURSE / f"{name}.ipynb").read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code"]


def printed_by(name: str) -> str:
    return "\n".join(PRINTED[snippet] for snippet, _ in blocks_of(lesson(name)))


SHOWN = r"^# docs/snippets/(\S+)\n(?:(?!^```$).)*?^```\n```text\n(.*?)^```$"
"""A snippet and what it printed, which follows at once."""


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def matches(shown: list[str], printed: list[str]) -> bool:
    """Whether a block shows all of an output, a line ``...`` standing for one or more that are left out."""
    at, cut = 0, False
    for line in shown:
        if line == "...":
            cut = True
            continue
        place = next((there for there in range(at + cut, len(printed)) if printed[there] == line), None)
        if place is None or (place != at and not cut):
            return False
        at, cut = place + 1, False
    return at < len(printed) if cut else at == len(printed)


def test_there_are_twelve_and_the_index_leads_to_each() -> None:
    assert sorted(LESSONS) == sorted(page.stem for page in COURSE.glob("[0-9]*.md"))
    assert len(LESSONS) == 12
    index = (COURSE / "index.md").read_text(encoding="utf-8")
    for name in LESSONS:
        assert f"({name}.md)" in index
        assert f"({name}.ipynb)" in index


def test_lesson_4_asks_another_question_than_the_demo() -> None:
    """Studies of one question are joined, and neighbours (within a tenth) are counted: after the demo a reader would get other
    lines than the lesson shows."""
    demo = plan_of_a_study("demo")["set"]["training.steps"]
    (own,) = (int(found) for found in re.findall(r"training\.steps=(\d+)", lesson("4-positions").split("## Question")[0]))
    assert abs(own - demo) > 0.1 * max(own, demo)


def plan_of_a_study(name: str) -> dict[str, Any]:
    return yaml.safe_load((files("glassformer") / "recipes" / "studies" / f"{name}.yaml").read_text(encoding="utf-8"))


def test_lesson_11_shows_the_diagnosis_in_its_present_words() -> None:
    """Its record is made by hand, so the sentences are rebuilt from its figures."""
    told = PRINTED["course_curves.py"]
    rows = [{"step": step, "loss": 4.529 if step == 10 else 4.524} for step in range(10, 101, 10)]
    (flat,) = diagnose([*rows, {"step": 100, "validation_loss": 4.524}], Facts())
    assert f"cold: {flat.code}. {flat.sign}" in told
    losses = {100: (0.844, 1.849), 200: (0.5, 2.0), 300: (0.3, 2.5), 400: (0.113, 3.018)}
    pairs = [{"step": step, "loss": loss, "validation_loss": held} for step, (loss, held) in losses.items()]
    (found,) = diagnose(pairs, Facts())
    assert f"overfitted: {found.code}. {found.sign}" in told


@pytest.mark.parametrize("name", LESSONS)
class TestEveryLesson:
    def test_its_notebook_is_up_to_date(self, name: str) -> None:
        kept = (COURSE / f"{name}.ipynb").read_text(encoding="utf-8")
        assert kept == notebook_of(lesson(name)), "run python docs/make_notebooks.py"

    def test_one_picture_one_question_one_folded_answer(self, name: str) -> None:
        text = lesson(name)
        (picture,) = re.findall(r"!\[.+?\]\((pictures/\w+\.svg)\)", text)
        assert 1000 < (COURSE / picture).stat().st_size < 100_000
        assert (
            text.count("## Question\n") == text.count("<details><summary>Answer</summary>\n\n") == text.count("</details>") == 1
        )
        assert text.startswith(f"# {name.split('-')[0]}. ")
        assert text.splitlines()[0].endswith("?")

    def test_its_links_lead_somewhere(self, name: str) -> None:
        for target in re.findall(r"\]\(([^)#]+)\)", lesson(name)):
            assert (COURSE / target).exists(), target

    def test_what_it_shows_was_printed_and_cuts_are_marked(self, name: str) -> None:
        shown = 0
        for snippet, block in re.findall(SHOWN, lesson(name).split("## Question")[0], re.DOTALL | re.MULTILINE):
            assert matches(lines_of(block), lines_of(PRINTED[snippet])), block
            shown += 1
        assert shown

    def test_its_figures_were_measured(self, name: str) -> None:
        """Every number with a decimal point stands in what its snippets printed, or in the page that it names."""
        told = printed_by(name) + FROM_ELSEWHERE.get(name, "")
        prose = re.sub(r"^```.*?^```$|`[^`\n]+`", "", lesson(name), flags=re.DOTALL | re.MULTILINE)
        for figure in re.findall(r"(?<![\d.])\d+\.\d+(?![\d.])", prose):
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", told), figure


SLOW = ("3-gpt", "4-positions", "6-knowledge", "10-blocks", "12-pairs")
"""Lessons that evaluate a whole split or start a study: too long for every run of the tests."""


@pytest.mark.usefixtures("few_docstrings")
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in LESSONS])
def test_its_cells_run_shortened(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in code_cells(name)[1:]:  # the first says where a notebook writes
        code = shortened(code)
        if code.startswith("%%bash\n"):
            run_commands(code.removeprefix("%%bash\n"))
        elif code.startswith("from IPython.display"):
            assert Path(re.search(r"runs/\w+\.svg", code)[0]).stat().st_size > 1000  # type: ignore[index]
        else:
            exec(compile(code, name, "exec"), names)


def run_commands(code: str) -> None:
    """The lines of a %%bash cell; ``glassformer`` in this process, which has loaded torch already."""
    for line in code.replace("\\\n", " ").splitlines():
        words, _, meant = line.partition(" || ")
        if words.startswith("glassformer "):
            assert command(shlex.split(words)[1:]) == (3 if meant else 0), line
        else:
            subprocess.run(["bash", "-ec", line.replace("python ", f"{sys.executable} ")], check=True)


def shortened(code: str) -> str:
    for pattern, instead in SHORTER:
        code = re.sub(pattern, instead, code)
    return code


@pytest.mark.parametrize("name", [one if one == "2-tokens" else pytest.param(one, marks=pytest.mark.slow) for one in LESSONS])
def test_its_notebook_runs_in_a_kernel_and_writes_where_it_says(name: str, tmp_path: Path) -> None:
    """Shortened, and started in its own folder."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    folder = tmp_path / "docs" / "course"
    folder.mkdir(parents=True)
    notebook = nbformat.read(COURSE / f"{name}.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.source = shortened(cell.source) if cell.cell_type == "code" else cell.source
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    assert str(tmp_path / "runs") in notebook.cells[0].outputs[0]["text"]
    assert not (folder / "runs").exists()


def test_figures_runs_and_looks_show_themselves_in_a_kernel(trained: Path) -> None:
    """Without %matplotlib inline: an SVG for a figure, whole HTML for the others."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    shown = ["run", "run.look('the cat').figure()", "run.look('the cat')", "run.evaluate()", "gf.check(run.model)"]
    cells = [f"import glassformer as gf\nrun = gf.load({str(trained)!r})", *shown]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    data = [cell.outputs[-1]["data"] for cell in notebook.cells[1:]]
    assert "<svg" in data[1]["image/svg+xml"]
    html = [one["text/html"] for one in (data[0], *data[2:])]
    assert "<svg" in html[0]
    assert not re.search(r"\d\.\d{6}", re.sub(r"<svg.*</svg>", "", html[0], flags=re.DOTALL))  # rounded for people
    assert "ResizeObserver" in html[1]


@pytest.mark.slow
def test_the_whole_course_as_it_is_typed(tmp_path: Path) -> None:
    """Every snippet, in processes and at full size; the claims that a lesson rests on hold again."""
    words = [sys.executable, str(DOCS / "make_course.py"), str(tmp_path), "--look-only"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rotary: better" in done.stdout
    assert re.search(r"Transformer: (1\.000|0\.9)", done.stdout)
    assert "FAILED      causality" in done.stdout
