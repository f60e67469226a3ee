from pathlib import Path

import pytest

from rag.ingestion.contents import Contents, Entry, read_contents
from rag.ingestion.links import UrlStyle
from rag.ingestion.titles import title_in
from tests.rag.ingestion.test_course import write

SUMMARY = """# Summary

[Foreword](foreword.md)

# Part one

- [Getting `started`](start.md)
  - [Install](start/install.md)
    - [On Linux](start/linux.md#apt)
- [Draft]()

# Part two

1. [Ownership](ownership.md)
   1. [Moves](moves.md)

---

[Contributors](people.md)
"""


def contents(root: Path, files: dict[str, str]) -> Contents:
    write(root, files)
    suffixes = (".md", ".mdx", ".rst", ".ipynb")
    lessons = [name for name in files if name.endswith(suffixes) and "SUMMARY" not in name]
    return read_contents(root, sorted(lessons))


@pytest.mark.parametrize(
    ("files", "style", "site_root"),
    [
        ({"docusaurus.config.js": "", "docs/a.md": ""}, "docusaurus", ""),
        ({"docusaurus.config.ts": "", "docs/SUMMARY.md": ""}, "docusaurus", ""),
        ({"website/docusaurus.config.js": "", "website/docs/a.md": ""}, "docusaurus", "website"),
        ({"book.toml": "", "src/SUMMARY.md": "", "src/a.md": ""}, "mdbook", "src"),
        ({"src/SUMMARY.md": ""}, "mdbook", "src"),
        ({"source/conf.py": "", "source/a.rst": ""}, "sphinx", "source"),
        ({"conf.py": "", "a.md": ""}, "sphinx", ""),
        ({"source/index.rst": ""}, "sphinx", "source"),
        ({"book/_toc.yml": "", "book/a.md": ""}, "sphinx", "book"),
        ({"a.rst": ""}, "sphinx", ""),
        ({"_quarto.yml": "", "a.qmd": ""}, "mdbook", ""),
        ({"a.md": ""}, "docusaurus", ""),
    ],
)
def test_the_generator_is_known_by_its_files(
    tmp_path: Path, files: dict[str, str], style: UrlStyle, site_root: str
) -> None:
    found = contents(tmp_path, files)
    assert (found.url_style, found.site_root) == (style, site_root)


def test_mdbook_numbers_its_chapters_over_all_parts(tmp_path: Path) -> None:
    names = ["foreword", "start", "start/install", "start/linux", "ownership", "moves", "people"]
    files = {f"src/{name}.md": "" for name in names} | {"src/SUMMARY.md": SUMMARY}
    assert contents(tmp_path, files).entries == {
        "src/foreword.md": Entry("Foreword", "Foreword"),
        "src/start.md": Entry("Getting started", "Getting started", 1),
        "src/start/install.md": Entry("Install", "Getting started", 1),
        "src/start/linux.md": Entry("On Linux", "Getting started", 1),
        "src/ownership.md": Entry("Ownership", "Ownership", 3),
        "src/moves.md": Entry("Moves", "Ownership", 3),
        "src/people.md": Entry("Contributors", "Contributors"),
    }


def test_docusaurus_sidebars_may_call_a_page_by_its_own_id(tmp_path: Path) -> None:
    files = {
        "sidebars.js": "module.exports = {docs: [{Basics: ['basics/arms']}]};",
        "docs/basics/02-grippers.md": "---\ntitle: Grippers\nid: arms\n---\nText",
    }
    write(tmp_path, files)
    entries = read_contents(tmp_path, list(files)).entries
    assert entries["docs/basics/02-grippers.md"].chapter == "Basics"


def test_docusaurus_sidebars_name_categories(tmp_path: Path) -> None:
    files = {
        "sidebars.js": "module.exports = {docs: ['intro', {Basics: ['basics/nodes']}]};",
        "docs/intro.md": "",
        "docs/01-basics/02-nodes.md": "",
    }
    assert contents(tmp_path, files).entries == {"docs/01-basics/02-nodes.md": Entry("", "Basics")}


def test_hugging_face_courses_name_chapters(tmp_path: Path) -> None:
    toc = """
    - title: 1. Transformer models
      sections:
      - local: chapter1/1
        title: Introduction
      - title: Deeper
        sections:
        - local: chapter1/2
    """
    files = {"en/_toctree.yml": toc, "en/chapter1/1.mdx": "", "en/chapter1/2.mdx": ""}
    assert contents(tmp_path, files).entries == {
        "en/chapter1/1.mdx": Entry("Introduction", "1. Transformer models"),
        "en/chapter1/2.mdx": Entry("", "Deeper"),
    }


@pytest.mark.parametrize(
    "toc",
    [
        "format: jb-book\nroot: a\nparts:\n- caption: P\n  chapters:\n  - file: b\n"
        "    sections:\n    - file: c\n      sections:\n      - file: d\n",
        "format: jb-book\nroot: a\nchapters:\n- file: b\n  sections:\n  - file: c\n  - file: d\n",
        "- file: a\n  sections:\n  - file: b\n    sections:\n    - file: c\n    - file: d\n",
    ],
)
def test_jupyter_books_call_chapters_after_their_page(tmp_path: Path, toc: str) -> None:
    files = {"_toc.yml": toc, "b.md": "# Bees\n", "c.ipynb": "{}", "d.md": ""}
    assert contents(tmp_path, files).entries == {
        "b.md": Entry("Bees", "Bees"),
        "c.ipynb": Entry("", "Bees"),
        "d.md": Entry("", "Bees"),
    }


def test_sphinx_pages_belong_to_the_page_whose_toctree_lists_them(tmp_path: Path) -> None:
    options = ".. toctree::\n   :caption: Start\n   :hidden:\n\n"
    index = f"Docs\n====\n\n{options}   Install <install>\n   guide\n"
    children = ".. toctree::\n   :glob:\n\n   guide/one\n   /guide/two\n   x*\n"
    guide = f"The ``guide``\n=============\n\n{children}"
    files = {
        "source/conf.py": "",
        "source/index.rst": index,
        "source/install.rst": "Install\n=======\n",
        "source/guide.rst": guide,
        "source/guide/one.rst": "One\n===\n\n```{toctree}\n",
        "source/guide/two.md": "",
    }
    assert contents(tmp_path, files).entries == {
        "source/install.rst": Entry("Install", "Start"),
        "source/guide.rst": Entry("", "Start"),
        "source/guide/one.rst": Entry("", "The guide"),
        "source/guide/two.md": Entry("", "The guide"),
    }


def test_myst_toctrees_are_read_too(tmp_path: Path) -> None:
    files = {"a.md": "# Arms\n\n```{toctree}\n:maxdepth: 2\nb\n```\n\nText\n", "b.md": ""}
    assert contents(tmp_path, files).entries == {"b.md": Entry("", "Arms")}


@pytest.mark.parametrize(
    "file", ["_toc.yml", "_toctree.yml", "SUMMARY.md", "sidebars.js", "_category_.json"]
)
@pytest.mark.parametrize("content", ["", "{", "[1, 2", "- - -", "\ud800", "null", "[]", "{}"])
def test_a_broken_table_of_contents_costs_names_only(
    tmp_path: Path, file: str, content: str
) -> None:
    write(tmp_path, {"a.md": "Text"})
    (tmp_path / file).write_bytes(content.encode("utf-8", "surrogatepass"))
    found = read_contents(tmp_path, ["a.md"])
    assert (found.entries, found.labels) == ({}, {})


def test_folders_are_called_after_their_label_or_opening_page(tmp_path: Path) -> None:
    files = {
        "a/_category_.yml": "label: Arms",
        "b/intro.md": "# Intro to bees",
        "b/README.md": "---\ntitle: 'Bees'\n---\n",
        "c/overview.rst": "Cats\n====\n",
        "d/other.md": "# Dogs",
    }
    found = contents(tmp_path, files)
    assert found.labels == {"a": "Arms"}
    assert found.openings == {"b": "Bees", "c": "Cats"}


@pytest.mark.parametrize(
    ("text", "file", "expected"),
    [
        ("# The `use` [keyword](x) {#use}\n", "a.md", "The use keyword"),
        ("text\n\n## Two\n", "a.md", ""),
        ("=====\nTitle\n=====\n", "a.rst", "Title"),
        ("`Name <https://x.org>`__\n========\n", "a.rst", "Name"),
        ('{"source": ["# Title\\n", "x"]}', "a.ipynb", "Title"),
        ("", "a.md", ""),
    ],
)
def test_titles_at_a_glance(text: str, file: str, expected: str) -> None:
    assert title_in(text, file) == expected
