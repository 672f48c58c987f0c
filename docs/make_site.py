"""What the site (`make docs`, mkdocs.yml) has beside the pages of docs/: those of the root, commands, Python names, source.

The pages are written for readers of the repository, so they link to files outside docs/. Here those links lead to a page of
the site: README.md is its first page, a source file is a page that shows it.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
AT_ROOT = {"README.md": "index.md"} | {
    f"{name}.md": f"{name}.md" for name in ("ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "SECURITY", "SUPPORT")
}
LINK = re.compile(r"(\]\(|src=\")(?!https?:|#|mailto:)([^)#\"\s]+)(#[^)\"]*)?(?=[)\"])")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".js": "javascript", ".css": "css", ".html": "html", ".json": "json"}
LARGEST = 200_000
"""Bytes of a file that is shown as a page."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages. A link to a file that does not exist fails the build here; one to an anchor, in mkdocs."""
    generated = {"commands.md": commands(), "reference.md": reference(), "returns.md": returns()}
    generated |= {page: (ROOT / source).read_text(encoding="utf-8") for source, page in AT_ROOT.items()}
    for name, text in generated.items():
        files.append(File.generated(config, name, content=text))
    repository = {page: source for source, page in AT_ROOT.items()}
    linked = set[str]()
    for file in list(files.documentation_pages()):
        at = repository.get(file.src_uri, f"docs/{file.src_uri}")
        for _, target, _ in LINK.findall(file.content_string):
            linked.add(in_repository(at, target))
    for path in sorted(linked):
        if shown_as_source(path):
            files.append(File.generated(config, f"source/{path}.md", content=source_page(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leads links out of docs/ to pages of the site."""
    here = page.file.src_uri
    at = {page: source for source, page in AT_ROOT.items()}.get(here, f"docs/{here}")
    if here.endswith(".ipynb.md"):
        at = here.removeprefix("source/").removesuffix(".md")
    elif here.startswith("source/"):
        return markdown

    def led(match: re.Match[str]) -> str:
        path = in_repository(at, match[2])
        if path in AT_ROOT:
            place = AT_ROOT[path]
        elif shown_as_source(path):
            place = f"source/{path}.md"
        elif path.startswith("docs/") and ((ROOT / path).exists() or files.get_file_from_path(path.removeprefix("docs/"))):
            place = path.removeprefix("docs/")
        else:
            raise FileNotFoundError(f"{at} links to {match[2]}: {path} does not exist")
        return f"{match[1]}{posixpath.relpath(place, posixpath.dirname(here) or '.')}{match[3] or ''}"

    return LINK.sub(led, markdown)


def in_repository(page: str, target: str) -> str:
    """A link's target from the root of the repository, ``page`` being where it stands."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))


def shown_as_source(path: str) -> bool:
    """Whether what is linked becomes a page: a file that is no page of docs/, or a folder, as the list of its files."""
    file, inside = ROOT / path, path.startswith("docs/")
    if file.is_dir():
        return True
    if not file.is_file() or file.suffix in (".png", ".svg") or file.stat().st_size > LARGEST:
        return False
    return path not in AT_ROOT and (not inside or file.suffix != ".md")


def source_page(path: str) -> str:
    if (ROOT / path).is_dir():
        names = sorted(
            f"{one.name}/" if one.is_dir() else one.name for one in (ROOT / path).iterdir() if one.name != "__pycache__"
        )
        return f"---\nsearch:\n  exclude: true\n---\n# {path}/\n\n" + "".join(f"- `{name}`\n" for name in names)
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".ipynb"):
        return f"---\nsearch:\n  exclude: true\n---\n{notebook(path, json.loads(text))}"
    language = LANGUAGES.get(Path(path).suffix, "text")
    return f"---\nsearch:\n  exclude: true\n---\n# {path}\n\n````{language}\n{text}````\n"


def notebook(path: str, document: dict[str, Any]) -> str:
    """A notebook's cells as they stand in Jupyter: text, and code to run."""
    parts = [f"The notebook `{path}`, to read; to run it: `jupyter notebook {path}`.\n"]
    for cell in document["cells"]:
        code = "".join(cell["source"])
        kind, code = ("bash", code.removeprefix("%%bash\n")) if code.startswith("%%bash") else ("python", code)
        parts.append(code if cell["cell_type"] == "markdown" else f"```{kind}\n{code.rstrip()}\n```\n")
    return "\n".join(parts)


def commands() -> str:
    """Every command with its help, as the terminal prints it."""
    sys.path.insert(0, str(ROOT / "src"))
    os.environ |= {"NO_COLOR": "1", "COLUMNS": "110", "TERM": "dumb"}
    import typer

    from glassformer.cli.main import app, run

    group: Any = typer.main.get_command(app)
    context = group.make_context("glassformer", [], resilient_parsing=True)
    parts = [
        "# Commands\n",
        "Every command prints this with `--help`. `glassformer --install-completion` makes your shell complete them.\n",
    ]
    for name in group.list_commands(context):
        verbs = getattr(group.get_command(context, name), "commands", {})
        for words in [[name], *([name, verb] for verb in verbs)]:
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                run([*words, "--help"])
            parts.append(f"{'#' * (1 + len(words))} {' '.join(words)}\n\n```text\n{said.getvalue().strip()}\n```\n")
    return "\n".join(parts)


def reference() -> str:
    """Every public Python name, from its docstring."""
    sys.path.insert(0, str(ROOT / "src"))
    import glassformer

    parts = [
        "# Python reference\n",
        "What `import glassformer as gf` gives. How it is used: [Python](python.md). What calls return: [here](returns.md).\n",
    ]
    return "\n".join([*parts, *(f"::: {module}.{name}\n" for name, module in sorted(glassformer._FACE.items()))])


def returns() -> str:
    """The classes of what public names return, from their docstrings; a dataclass's signature is the list of its fields."""
    parts = ["# What calls return\n", "Objects that functions and methods of [the reference](reference.md) give you.\n"]
    return "\n".join([*parts, *(f"::: {one}\n    options: {{merge_init_into_class: true}}\n" for one in returned())])


def returned() -> list[str]:
    """Our classes that public functions and methods return or hand to a callback, and that are no public names themselves."""
    import glassformer

    found = dict[str, str]()
    for name in glassformer.__all__:
        thing = getattr(glassformer, name)
        members = {name: thing} if inspect.isfunction(thing) else vars(thing)
        for function in (one for key, one in members.items() if not key.startswith("_")):
            function = getattr(function, "fget", None) or getattr(function, "func", function)
            notes = getattr(function, "__annotations__", {})
            words = " ".join(str(notes[key]) for key in notes if key == "return" or name == "Callback")
            for word in re.findall(r"\b[A-Z]\w+", words):
                one = getattr(sys.modules[function.__module__], word, None)
                if inspect.isclass(one) and one.__module__.startswith("glassformer") and word not in glassformer.__all__:
                    found[word] = f"{one.__module__}.{word}"
    return [found[word] for word in sorted(found)]
