from textwrap import dedent

import pytest

from rag.ingestion.includes import targets
from rag.ingestion.markdown import parse_page
from rag.ingestion.myst import from_myst

FILES = {
    "arm.py": "import arm\n\narm.move()\n",
    "part.md": "From {ref}`the other page <other>`.\n",
    "loop.md": "```{include} loop.md\n```\n",
}


def read(source: str) -> str:
    sections = parse_page(from_myst(dedent(source).strip("\n"), FILES.get))
    return "\n\n".join(block.text for section in sections for block in section.blocks)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("```{note}\nCareful.\n```", "**Note**\n\nCareful."),
        ("```{note} Careful.\n```", "**Note**\n\nCareful."),
        (":::{warning}\n:class: wide\n\nHot.\n:::", "**Warning**\n\nHot."),
        ("```{admonition} Try *it*\n---\nclass: tip\n---\nNow.\n```", "**Try it**\n\nNow."),
        ("````{note}\nA.\n```{tip}\nB.\n```\n````", "**Note**\n\nA.\n\n**Tip**\n\nB."),
        ("```{prf:theorem} Pythagoras\n:label: pyth\n\n$a$\n```", "**Pythagoras**\n\n$a$"),
        ("```{code-cell} ipython3\n:tags: [hide]\n\nx = 1\n```", "```ipython3\nx = 1\n```"),
        ("```{code-block} c\n:caption: arm.c\nint x;\n```", "arm.c\n\n```c\nint x;\n```"),
        ("```{python}\nx = 1\n```", "```python\nx = 1\n```"),
        ("```{math}\n:label: eq\na^2\n```", "$$\na^2\n$$"),
        ("```{figure} arm.png\n:alt: An arm\n\nIt grips.\n```", "An arm\n\nIt grips."),
        ("```{toctree}\n:hidden:\n\nintro\n```\n\nText.", "Text."),
        ("```{versionadded} 2.0\nArms.\n```", "Added in 2.0\n\nArms."),
        ("```{literalinclude} arm.py\n:lines: 3\n```", "```\narm.move()\n```"),
        ("```{include} part.md\n```", "From the other page."),
        ("```{include} loop.md\n```\nText.", "Text."),
        ("(label)=\nText.\n\n% a comment\n+++", "Text."),
        ("{func}`~arm.move`, {math}`x^2`, {doc}`../the-arm`.", "`move`, $x^2$, the arm."),
        ("A `{role}` of {term}`gears`.", "A `{role}` of gears."),
        ("```md\n{note}`x`\n```\n\n{term}`gear`", "```md\n{note}`x`\n```\n\ngear"),
        ("- One\n\n  ```{tip}\n  Two.\n  ```", "- One\n\n  **Tip**\n\n  Two."),
    ],
)  # fmt: skip
def test_myst_is_shown_as_its_reader_sees_it(source: str, expected: str) -> None:
    assert read(source) == expected


def test_tabs_keep_their_names() -> None:
    source = """
        ::::{tab-set}
        :::{tab-item} Linux
        :sync: linux
        Run `apt`.
        :::
        :::{tab-item} macOS
        Run `brew`.
        :::
        ::::
    """
    assert read(source) == "**Linux**\n\nRun `apt`.\n\n**macOS**\n\nRun `brew`."


@pytest.mark.parametrize("text", ["+++\n% 5", ":::note\nText.\n:::", "```r\nx\n```", "{x: 1}", ""])
def test_a_page_without_myst_stays_as_it_is(text: str) -> None:
    assert from_myst(text) == text


def test_a_fence_that_never_closes_ends_with_the_page() -> None:
    assert read("```{note}\nCareful.\n\nText.") == "**Note**\n\nCareful.\n\nText."


def test_what_it_includes_shapes_the_page() -> None:
    assert targets("```{include} part.md\n```\n\n:::{literalinclude} arm.py\n:::") == [
        "part.md",
        "arm.py",
    ]
