import pytest

from rag.ingestion.dialects import (
    from_mdbook,
    from_rmarkdown,
    with_closed_fences,
    with_jsx_headings,
    with_listings,
    without_hidden_lines,
    without_templates,
)
from rag.ingestion.markdown import parse_page

FILES = {
    "main.rs": (
        "fn main() {\n    // ANCHOR: body\n    one();\n    two();\n    // ANCHOR_END: body\n}\n"
    ),
    "part.md": "Included.\n\n{{#include main.rs:1}}\n",
    "loop.md": "Again.\n{{#include loop.md}}\n",
    "_part.qmd": "---\ntitle: Part\n---\nIncluded.\n",
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{#include main.rs:1:1}}", "fn main() {"),
        ("{{#include main.rs:3}}", "    one();"),
        ("{{#include main.rs::1}}", "fn main() {"),
        ("{{#include main.rs:6:}}", "}"),
        ("{{#include main.rs:body}}", "    one();\n    two();"),
        ("{{#rustdoc_include main.rs}}", "fn main() {\n    one();\n    two();\n}"),
        ("  {{ #include main.rs:1:1 }}", "  fn main() {"),
        ("{{#include missing.rs}}", ""),
        ("{{#include part.md}}", "Included.\n\nfn main() {"),
        ("{{#quiz ../quizzes/ch04.toml}}\nText.", "Text."),
        ("{{#playground x.rs}}\nText.", "Text."),
        ("Write `{{#include x}}` to include.", "Write `{{#include x}}` to include."),
    ],
)
def test_mdbook_includes(source: str, expected: str) -> None:
    assert from_mdbook(source, FILES.get) == expected


def test_an_include_that_includes_itself_ends() -> None:
    assert from_mdbook("{{#include loop.md}}", FILES.get).count("Again.") < 10


@pytest.mark.parametrize(
    ("opening", "caption"),
    [
        ('<Listing number="4-2" caption="Using `Box<T>`">', "Listing 4-2: Using `Box<T>`"),
        ('<Listing number="4-2" file-name="src/main.rs">', "Listing 4-2 (src/main.rs)"),
        ('<Listing file-name="src/main.rs" caption="It runs">', "It runs (src/main.rs)"),
        ('<Listing file-name="src/main.rs">', ""),
        ("<Listing>", ""),
    ],
)
def test_a_listings_caption_is_kept(opening: str, caption: str) -> None:
    source = f"{opening}\n\n```rust\nfn f() {{}}\n```\n\n</Listing>"
    code = "```rust\nfn f() {}\n```"
    blocks = [
        block.text
        for section in parse_page(from_mdbook(source, FILES.get))
        for block in section.blocks
    ]
    assert blocks == ([caption, code] if caption else [code])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("```{r setup, echo=FALSE}\nx <- 1\n```", "```r\nx <- 1\n```"),
        ("```{python}\n#| label: fig\n#| echo: false\nx = 1\n```", "```python\nx = 1\n```"),
        ("```{ojs}\n//| echo: false\nx\n```", "```ojs\nx\n```"),
        ("``` {.python .numberLines}\nx\n```", "```python\nx\n```"),
        ("```python\nx\n```", "```python\nx\n```"),
        ("# Title {-}", "# Title"),
        ("# Title {#sec-a .unnumbered}", "# Title {#sec-a}"),
        ("{{< include _part.qmd >}}", "Included.\n"),
        ("{{< include missing.qmd >}}", ""),
        ("Text. {{< fa rocket >}}", "Text. "),
        (':::{.callout-tip title="Try"}\nText.\n:::', ":::tip Try\nText.\n:::"),
    ],
)
def test_r_markdown_and_quarto(source: str, expected: str) -> None:
    assert from_rmarkdown(source, FILES.get) == expected


def test_quarto_divisions_hold_their_text_only() -> None:
    left = "::: {.column width=50%}\nLeft.\n:::"
    source = f":::: {{.columns}}\n{left}\n::: {{.callout-note}}\nCareful.\n:::\n::::"
    [section] = parse_page(from_rmarkdown(source, FILES.get))
    assert [block.text for block in section.blocks] == ["Left.\n\n**Note**\n\nCareful."]


@pytest.mark.parametrize(
    ("source", "headings"),
    [
        ('<h2 className="hero">Getting <b>started</b></h2>\n\nText.', ["Getting started"]),
        ('<h3 id="top">Top</h3>', ["Top {#top}"]),
        ("<h2\n  className={styles.x}\n>\n  Two\n  lines\n</h2>", ["Two lines"]),
        ("```html\n<h1>code</h1>\n```", []),
        ("```html\n<h1>never closed</h1>\n", []),
        ("<h2></h2>", []),
    ],
)
def test_jsx_headings_are_headings(source: str, headings: list[str]) -> None:
    sections = parse_page(with_jsx_headings(source), mdx=True)
    assert [section.heading.raw for section in sections if section.heading] == headings


@pytest.mark.parametrize(
    ("source", "sections"),
    [
        ("# A\n\n```sh\nls\n\n## B\n\nText.", ["A", "B"]),
        ("# A\n\n```sh\n# no heading\n\nls\n```\n\n## B\n\nText.", ["A", "B"]),
        ("# A\n\n~~~\nls\n\n## B\n\n```sh\nls\n```\n", ["A", "B"]),
        ("# A\n\n````md\n```\n\n## no heading\n````\n", ["A"]),
        ("# A\n\n```sh\nls", ["A"]),
    ],
)
def test_an_unclosed_listing_does_not_swallow_the_page(source: str, sections: list[str]) -> None:
    found = parse_page(with_closed_fences(source))
    assert [section.heading.text for section in found if section.heading] == sections


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{< note >}}Careful.{{< /note >}}", "Careful."),
        ("{{% notice tip %}}\nCareful.\n{{% /notice %}}", "\nCareful.\n"),
        ("{% include nav.html %}\nText.", "\nText."),
        ("{% highlight ruby %}\nputs 1\n{% endhighlight %}", "```ruby\nputs 1\n```"),
        ("> Words.\n{: .note }", "> Words.\n"),
        ("* TOC\n{:toc}\n\nText.", "\n\nText."),
        ("## Arms\n{: #all-arms }", "## Arms { #all-arms }"),
        ('=== "Linux"\n    Text.', '!!! tab "Linux"\n    Text.'),
        ("> [!WARNING]\n> Hot.", "> **Warning**\n> \n> Hot."),
        ("> [!tip]- Try it\n> Now.", "> **Try it**\n> \n> Now."),
        ("Write `{{< note >}}` or `{% if %}`.", "Write `{{< note >}}` or `{% if %}`."),
        ("```html\n{% if arm %}\n```", "```html\n{% if arm %}\n```"),
        ("Use {{ name }}, {x: 1}, {:?} and {:.2}.", "Use {{ name }}, {x: 1}, {:?} and {:.2}."),
    ],
)
def test_templates_of_site_generators(source: str, expected: str) -> None:
    assert without_templates(source) == expected


def test_preformatted_html_is_a_listing() -> None:
    source = '<pre><code class="language-c">if (a &lt; b)\n    <b>go</b>();\n</code></pre>'
    (section,) = parse_page(with_listings(source))
    assert section.blocks[0].text == "```c\nif (a < b)\n    go();\n```"
    assert with_listings(f"```html\n{source}\n```") == f"```html\n{source}\n```"


def test_rust_shows_what_mdbook_shows() -> None:
    shown = "#![allow(dead_code)]\n#[derive(Debug)]\nstruct Arm;\n# escaped\n"
    hidden = "# fn main() {\n#\n    # go();\n"
    source = f"```rust,ignore\n{hidden}{shown.replace('# esc', '## esc')}# }}\n```\n"
    assert without_hidden_lines(source) == f"```rust,ignore\n{shown}```\n"
    assert without_hidden_lines("```sh\n# as root\n```") == "```sh\n# as root\n```"
