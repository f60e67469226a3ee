from textwrap import dedent

import pytest

from rag.ingestion.links import anchors
from rag.ingestion.rst import parse_rst
from rag.ingestion.sections import sections_under, title_heading
from rag.ingestion.sphinx_markup import chosen_lines, role_text

FILES = {
    "part.rst": "Drawn in, with a |name|.\n\n.. |name| replace:: substitution\n",
    "loop.rst": "Again.\n\n.. include:: loop.rst\n",
    "code.py": "one\n# start\ntwo\nthree\n# end\nfour\n",
}


def rendered(source: str) -> str:
    sections = parse_rst(dedent(source), FILES.get)
    return "\n\n".join(block.text for section in sections for block in section.blocks)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("**Bold**, *soft* and ``code``.", "**Bold**, *soft* and `code`."),
        ("one\ntwo", "one two"),
        (
            "A `link <https://x.org>`__ and `another`_.\n\n.. _another: https://y.org",
            "A link and another.",
        ),
        ("Math :math:`a_1`.\n\n.. math::\n\n   x = 1", "Math $a_1$.\n\n$$\nx = 1\n$$"),
        ("- a\n- b\n\n  - c", "- a\n- b\n  - c"),
        ("3. a\n4. b", "3. a\n4. b"),
        ("Term\n  Meaning.", "**Term**\n\nMeaning."),
        (":author: Ada", "author: Ada"),
        ("::\n\n  x = 1", "```\nx = 1\n```"),
        (">>> 1 + 1\n2", "```\n>>> 1 + 1\n2\n```"),
        ("| one\n| two", "one\ntwo"),
        ("Text [1]_.\n\n.. [1] Note.", "Text [1].\n\n[1] Note."),
        ("== ==\na  b\n== ==\n1  2\n== ==", "| a | b |\n|---|---|\n| 1 | 2 |"),
        (
            ".. list-table::\n   :header-rows: 1\n\n   * - a\n     - b\n   * - 1\n     - 2",
            "| a | b |\n|---|---|\n| 1 | 2 |",
        ),
        (".. comment\n\nText.", "Text."),
        (".. _label:\n\nText.", "Text."),
        (".. |x| replace:: why\n\nSee |x|.", "See why."),
        ("Seen |logo|.\n\n.. |logo| image:: a.png\n   :alt: a logo", "Seen a logo."),
    ],
)
def test_blocks_become_plain_markdown(source: str, expected: str) -> None:
    assert rendered(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            ".. code-block:: python\n   :linenos:\n   :emphasize-lines: 1\n\n   x = 1",
            "```python\nx = 1\n```",
        ),
        (".. code:: bash\n\n   ls", "```bash\nls\n```"),
        (
            ".. code-block:: python\n   :caption: Try it\n\n   x = 1",
            "Try it\n\n```python\nx = 1\n```",
        ),
        (".. note:: Careful.", "**Note**\n\nCareful."),
        (".. warning::\n\n   Careful.", "**Warning**\n\nCareful."),
        (".. admonition:: Try it\n\n   Careful.", "**Try it**\n\nCareful."),
        (".. tabs::\n\n  .. group-tab:: Linux\n\n    Text.", "**Linux**\n\nText."),
        (".. tab-set::\n\n  .. tab-item:: C++\n     :sync: cpp\n\n     Text.", "**C++**\n\nText."),
        (".. code-tab:: py Python\n\n   x = 1", "**Python**\n\n```py\nx = 1\n```"),
        (".. toctree::\n   :maxdepth: 1\n\n   a\n   b\n\nText.", "Text."),
        (".. contents:: Table of Contents\n   :local:\n\nText.", "Text."),
        (".. redirect-from::\n\n   Old/Place\n\nText.", "Text."),
        (".. raw:: html\n\n   <script>alert(1)</script>\n\nText.", "Text."),
        (".. graphviz::\n\n   digraph {}\n\nText.", "Text."),
        (".. only:: html\n\n   Text.", "Text."),
        (".. versionadded:: 2.1\n   More.", "Added in 2.1 More."),
        (".. glossary::\n\n   node\n     A process.", "**node**\n\nA process."),
        (".. image:: a.png\n   :alt: An arm\n   :target: x", "An arm"),
        (".. figure:: a.png\n\n   The caption.", "The caption."),
        (".. py:function:: run(x)\n\n   Runs.", "run(x)\n\nRuns."),
        (
            ".. never-heard-of:: An argument\n   :option: 1\n\n   And *text*.",
            "An argument\n\nAnd *text*.",
        ),
        (
            ".. literalinclude:: code.py\n   :language: python\n   :lines: 3-4",
            "```python\ntwo\nthree\n```",
        ),
        (".. literalinclude:: missing.py\n   :caption: What it shows", "What it shows"),
        (".. include:: part.rst", "Drawn in, with a substitution."),
        (".. include:: /etc/passwd\n\nText.", "Text."),
        (".. csv-table::\n   :file: /etc/passwd\n\nText.", "Text."),
    ],
)
def test_directives_keep_what_a_reader_sees(source: str, expected: str) -> None:
    assert rendered(source) == expected


@pytest.mark.parametrize(
    ("role", "text", "expected"),
    [
        ("doc", "Nodes <../Concepts/About-Nodes>", "Nodes"),
        ("doc", "../Concepts/About-Nodes", "About Nodes"),
        ("ref", "install_linux", "install linux"),
        ("ref", "the guide <install>", "the guide"),
        ("term", "workspace", "workspace"),
        ("py:class", "~rclpy.node.Node", "Node"),
        ("func", "!print", "print"),
        ("download", "a/b/code.zip", "code.zip"),
        ("kbd", "Ctrl+C", "Ctrl+C"),
    ],
)
def test_a_cross_reference_shows_its_words(role: str, text: str, expected: str) -> None:
    assert role_text(role, text) == expected


def test_unknown_roles_keep_their_text_and_code_roles_are_code() -> None:
    text = "See :doc:`A <b>`, :unheard-of:`this`, :py:func:`run` and `that <x>`."
    assert rendered(text) == "See A, this, `run` and that."


def test_sections_have_the_anchors_that_sphinx_gives_them() -> None:
    raw = parse_rst(
        dedent("""
        Page
        ====

        Opening.

        3.1 Setup
        ---------

        a

        .. _my-label:

        Names & more
        ------------

        b

        Setup
        ^^^^^

        c
        """)
    )
    sections = sections_under(raw, title_heading(raw), "sphinx")
    assert [(section.path, section.anchors) for section in sections] == [
        ((), ()),
        (("3.1 Setup",), ("setup",)),
        (("Names & more",), ("names-more",)),
        (("Names & more", "Setup"), ("names-more", "id1")),
    ]
    headings = [section.heading.raw for section in raw if section.heading]
    assert anchors(headings, "plain") == ["page", "setup", "names-more", "id1"]


def test_a_label_that_takes_the_sections_name_is_its_anchor() -> None:
    raw = parse_rst("Page\n====\n\n.. _my-list:\n\nMy list\n-------\n\nText.")
    assert [s.heading.raw for s in raw if s.heading] == ["Page {#page}", "My list {#my-list}"]


def test_a_tab_keeps_its_name_with_its_content() -> None:
    [section] = parse_rst(
        ".. tabs::\n\n  .. group-tab:: Linux\n\n    .. code-block:: sh\n\n       ls"
    )
    assert [block.text for block in section.blocks] == ["**Linux**\n\n```sh\nls\n```"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, FILES["code.py"].strip()),
        ({"lines": "1, 3-4"}, "one\ntwo\nthree"),
        ({"lines": "5-"}, "# end\nfour"),
        ({"lines": "nonsense"}, ""),
        ({"start-after": "# start", "end-before": "# end"}, "two\nthree"),
        ({"start-at": "two", "end-at": "three"}, "two\nthree"),
        ({"start-after": "not there"}, FILES["code.py"].strip()),
    ],
)
def test_parts_of_an_included_file(options: dict[str, str], expected: str) -> None:
    assert chosen_lines(FILES["code.py"], options) == expected


@pytest.mark.parametrize(
    "source",
    [
        "",
        "Title\n=",
        "``unclosed *and `odd",
        ".. include:: loop.rst",
        "=====\nToo long a title\n=====",
        "* a\n b\n\n   c\n d",
        ".. code-block::\n\n.. note::",
        "|missing| and missing_ and [9]_",
        "Section\n^^^^^^^\n\nA\n=\n\nB\n-\n\nC\n^",
        ".. figure::\n\n.. image::",
    ],
)
def test_odd_pages_are_read_in_silence(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    parse_rst(source, FILES.get)
    assert capfd.readouterr() == ("", "")
