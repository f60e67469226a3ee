from textwrap import dedent

import pytest

from rag.ingestion.markdown import parse_page
from rag.ingestion.sections import sections_under, title_heading


def rendered(source: str, *, mdx: bool = True) -> str:
    sections = parse_page(dedent(source), mdx=mdx)
    return "\n\n".join(block.text for section in sections for block in section.blocks)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("A [link](https://x.org) here.", "A link here."),
        ("A [ref][1] here.\n\n[1]: https://x.org", "A ref here."),
        ("See ![a robot arm](arm.png).", "See a robot arm."),
        ("**Bold**, *soft*, `code` and `` a`b ``.", "**Bold**, *soft*, `code` and `` a`b ``."),
        ("one\ntwo", "one two"),
        ("one  \ntwo", "one\ntwo"),
        ("import Tabs from '@theme/Tabs';\nimport './x.css'\n\nText.", "Text."),
        ("export const x = () => 1;\n\nText.", "Text."),
        ("<TabItem value='a' label={1 > 0}>\n\nText.\n\n</TabItem>", "**a**\n\nText."),
        ("Press <kbd>Enter</kbd> now.", "Press Enter now."),
        ("<details>\n<summary>More</summary>\nInside.\n</details>", "More\n\nInside."),
        ("<!-- secret -->\n\nText <!-- more --> here.", "Text  here."),
        ("{/* secret\nlines */}\n\nText.", "Text."),
        ("<script>\nalert(1)\n</script>\n\nText.", "Text."),
        ('<img src="a.png" alt="An arm" />', "An arm"),
        ("5 &lt; 6 &amp; more", "5 < 6 & more"),
        ("Cost $5 and $a_1 + b_1$.", "Cost $5 and $a_1 + b_1$."),
        ("$$\nx = 1\n$$", "$$\nx = 1\n$$"),
        ("```mermaid\ngraph TD\n```\n\nText.", "Text."),
        ("```rust,ignore\nfn f() {}\n```", "```rust\nfn f() {}\n```"),
        ("```\n{{#include x.rs}}\n```\n\nText.", "Text."),
        ("````md\n```\ninner\n```\n````", "````md\n```\ninner\n```\n````"),
        ("```js\nimport 'a'\n{/* kept */}\n```", "```js\nimport 'a'\n{/* kept */}\n```"),
        ("- a\n- b\n  - c", "- a\n- b\n  - c"),
        ("3. a\n4. b", "3. a\n4. b"),
        ("- a\n\n  ```\n  x\n  ```", "- a\n\n  ```\n  x\n  ```"),
        ("> quoted\n> words", "> quoted words"),
        ("| a | b |\n|---|:-:|\n| `x` | [y](z) |", "| a | b |\n|---|---|\n| `x` | y |"),
        (":::note\nCareful.\n:::", "**Note**\n\nCareful."),
        (":::tip Try it\nCareful.\n:::", "**Try it**\n\nCareful."),
        (":::tip[Try it]\nCareful.\n:::", "**Try it**\n\nCareful."),
        ('!!! note "Try it"\n    Careful.', "**Try it**\n\nCareful."),
        ("::::note\nA.\n\n:::tip\nB.\n:::\n::::", "**Note**\n\nA.\n\n**Tip**\n\nB."),
        (":::note\nOuter.\n\n:::tip\nInner.\n:::\n:::", "**Note**\n\nOuter.\n\n**Tip**\n\nInner."),
        (":::layout\nOnly text.\n:::", "Only text."),
        (":::\n\nText.", "Text."),
        (":::tip[Try **it**]\nCareful.\n:::", "**Try it**\n\nCareful."),
        ("<table><tr>\n<td>Lidar</td>\n<td>30 m</td>\n</tr></table>", "Lidar | 30 m"),
        ("```aquascope\nx(`{}`1);`[]``(focus,paths:x)`\n```", "```rust\nx(1);\n```"),
        ("---", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_blocks_become_plain_markdown(source: str, expected: str) -> None:
    assert rendered(source) == expected


def test_indented_text_is_code_only_outside_mdx() -> None:
    assert rendered("Text.\n\n    x = 1\n", mdx=False) == "Text.\n\n```\nx = 1\n```"
    assert rendered("<Tab>\n\n    Text.\n\n</Tab>", mdx=True) == "Text."


def test_headings_cut_the_page_and_nest() -> None:
    raw = parse_page(
        "# Page\n\nOpening.\n\n## A {#first}\n\na\n\n### B\n\nb\n\n## C\n\n#### D\n\nd"
    )
    sections = sections_under(raw, title_heading(raw), "docusaurus")
    assert [(s.path, s.anchors) for s in sections] == [
        ((), ()),
        (("A",), ("first",)),
        (("A", "B"), ("first", "b")),
        (("C", "D"), ("c", "d")),
    ]


def test_heading_text_is_plain_and_code_in_lists_is_no_heading() -> None:
    raw = parse_page("## The `use` **keyword**\n\n```sh\n# no heading\n```")
    assert [section.heading.text for section in raw if section.heading] == ["The use keyword"]


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("# One\n\n# Two", "One"),
        ("Text\n\n# One", "One"),
        ("## Leads\n\n### More", "Leads"),
        ("Text\n\n## Section", None),
        ("", None),
    ],
)
def test_the_page_is_named_by_its_h1_or_a_leading_heading(source: str, title: str | None) -> None:
    heading = title_heading(parse_page(source))
    assert (heading.text if heading else None) == title


def test_odd_pages_do_not_break_the_parser() -> None:
    for source in ("> " * 500 + "x", "- " * 300 + "x", "[" * 3000, "<" * 3000, "|" * 3000, "```\n"):
        parse_page(source)
