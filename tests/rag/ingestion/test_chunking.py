import re

import pytest

from rag.ingestion.chunking import CountTokens, Piece, cut
from rag.ingestion.markdown import parse_page
from rag.ingestion.sections import sections_under, title_heading

ROOM = 24


def words(text: str) -> int:
    return len(text.split())


def framed_words(text: str) -> int:
    """A tokenizer that, as BERT's does, adds two marks to any text."""
    return words(text) + 2


def pieces(source: str, limit: int = ROOM, title: str = "Page") -> list[Piece]:
    raw = parse_page(source)
    return cut(title, sections_under(raw, title_heading(raw), "plain"), limit, words)


def sentence(n: int, name: str = "word") -> str:
    return " ".join(f"{name}{i}" for i in range(n - 1)) + " end."


def test_blocks_fill_a_passage_and_are_kept_whole() -> None:
    source = f"{sentence(10, 'a')}\n\n{sentence(10, 'b')}\n\n{sentence(10, 'c')}"
    assert [p.text for p in pieces(source)] == [
        f"{sentence(10, 'a')}\n\n{sentence(10, 'b')}",
        sentence(10, "c"),
    ]


def test_each_passage_has_its_section_breadcrumb_and_anchor() -> None:
    long = sentence(15)
    source = f"# Page\n\n{long} 1\n\n## Two\n\n{long} 2\n\n### Three\n\n{long} 3"
    assert [(p.section_title, p.breadcrumb, p.anchor) for p in pieces(source)] == [
        (None, "Page", ""),
        ("Two", "Page > Two", "two"),
        ("Three", "Page > Two > Three", "three"),
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        # Small sections under one H2 share a passage, named after what holds them.
        ("## A\n\none two\n\n### B\n\nthree four", [("A", "one two\n\n**B**\n\nthree four")]),
        (
            "## A\n\n### B\n\none two three\n\n### C\n\nfour five",
            [("A", "**B**\n\none two three\n\n**C**\n\nfour five")],
        ),
        # What holds several of them is named once.
        (
            "## A\n\n### B\n\none\n\n#### C\n\ntwo\n\n#### D\n\nthree four\n\n### E\n\nfive",
            [("A", "**B**\n\none\n\n**C**\n\ntwo\n\n**D**\n\nthree four\n\n**E**\n\nfive")],
        ),
        # Different H2s, and the page's opening, never share one.
        (
            "one two three\n\n## A\n\nfour five six\n\n## B\n\nseven eight nine",
            [(None, "one two three"), ("A", "four five six"), ("B", "seven eight nine")],
        ),
        # A heading alone, and text too short to mean anything, are no passage.
        ("## A\n\n## B\n\nlong enough text", [("B", "long enough text")]),
        ("## A\n\ntiny\n\n## B\n\nlong enough text", [("B", "long enough text")]),
    ],
)
def test_small_sections(source: str, expected: list[tuple[str | None, str]]) -> None:
    found = pieces("# Page\n\n" + source)
    assert [(piece.section_title, piece.text) for piece in found] == expected


def test_a_large_section_does_not_take_in_its_neighbour() -> None:
    source = f"# Page\n\n## A\n\n### B\n\n{sentence(12)}\n\n### C\n\nfour five six"
    assert [piece.section_title for piece in pieces(source)] == ["B", "C"]


def test_headings_that_read_the_same_stay_apart() -> None:
    source = "# Page\n\n## A\n\n### B\n\none two three\n\n## A\n\n### B\n\nfour five six"
    assert [piece.anchor for piece in pieces(source)] == ["b", "b-1"]


def test_a_section_that_only_repeats_its_heading_is_left_out() -> None:
    source = (
        "# Page\n\n## The pre-lecture quiz\n\n[The Pre-lecture Quiz](x)\n\n## A\n\nOne two three."
    )
    assert [piece.section_title for piece in pieces(source)] == ["A"]


def test_a_repeated_passage_is_kept_once() -> None:
    source = "# Page\n\n## A\n\nthe same words\n\n## B\n\nthe same words\n\n## C\n\nother words"
    assert [piece.section_title for piece in pieces(source)] == ["A", "C"]


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    found = pieces(" ".join(sentence(9, name) for name in "abcd"))
    assert [piece.text for piece in found] == [
        f"{sentence(9, 'a')} {sentence(9, 'b')}",
        f"{sentence(9, 'c')} {sentence(9, 'd')}",
    ]


def test_a_long_listing_is_reopened_in_each_part() -> None:
    code = "\n".join(f"    line {i} of code" for i in range(20))
    found = pieces(f"```python\n{code}\n```")
    assert len(found) > 3
    for piece in found:
        assert re.fullmatch(r"```python\n(    line \d+ of code\n?)+\n```", piece.text)
    assert sum(piece.text.count("line") for piece in found) == 20


def test_a_long_table_repeats_its_header() -> None:
    rows = "\n".join(f"| row{i} | value |" for i in range(20))
    found = pieces(f"| key | value |\n|---|---|\n{rows}")
    assert len(found) > 2
    assert all(piece.text.startswith("| key | value |\n|---|---|\n| row") for piece in found)


def test_a_long_list_is_cut_between_items() -> None:
    found = pieces("\n".join(f"- item {i} has words" for i in range(12)))
    assert len(found) > 2
    assert all(re.fullmatch(r"(- item \d+ has words\n?)+", piece.text) for piece in found)


def test_a_long_list_item_is_cut_between_its_blocks() -> None:
    found = pieces(f"- {sentence(15, 'a')}\n\n  ```sh\n  {sentence(15, 'b')}\n  ```")
    assert [piece.text for piece in found] == [
        sentence(15, "a"),
        f"```sh\n{sentence(15, 'b')}\n```",
    ]


@pytest.mark.parametrize("count", [words, framed_words, len])
def test_heading_path_and_text_always_fit(count: CountTokens) -> None:
    source = "\n\n".join(
        [
            "# " + sentence(30, "title"),
            sentence(200),
            "x" * 900,
            "```\n" + "\n".join("y" * 70 for _ in range(30)) + "\n```",
            "| " + sentence(60) + " | b |\n|---|---|\n| c | d |",
            "## " + sentence(40, "heading"),
            *(sentence(n) for n in range(1, 40)),
            "- " + "\n- ".join(sentence(n, "item") for n in range(1, 40)),
        ]
    )
    limit = 64
    raw = parse_page(source)
    heading = title_heading(raw)
    assert heading is not None
    found = cut(heading.text, sections_under(raw, heading, "plain"), limit, count)
    assert found
    for piece in found:
        assert count(f"{piece.breadcrumb}\n{piece.text}") <= limit


def test_tokens_are_counted_about_once_a_block() -> None:
    counted: list[int] = []

    def count(text: str) -> int:
        counted.append(words(text))
        return words(text)

    source = "\n\n".join(sentence(10, f"p{i}_") for i in range(200))
    raw = parse_page(source)
    cut("Page", sections_under(raw, None, "plain"), 100, count)
    assert sum(counted) < 2 * words(source)


def test_no_word_is_lost() -> None:
    source = "\n\n".join(sentence(n, f"p{n}_") for n in (3, 30, 5, 80, 9))
    text = " ".join(piece.text for piece in pieces(source))
    assert text.split() == source.split()


def lines(n: int, name: str = "line") -> str:
    return "\n".join(f"{name} {i} of code" for i in range(n))


@pytest.mark.parametrize(
    ("source", "wholes"),
    [
        # A listing or a table that fits into a passage is in one, wherever it stands.
        (f"{sentence(20)}\n\n```\n{lines(5)}\n```\n\n{sentence(9)}", [f"```\n{lines(5)}\n```"]),
        (
            f"{sentence(12)}\n\n| a | b |\n|---|---|\n| one | two |\n\n{sentence(12)}",
            ["| a | b |\n|---|---|\n| one | two |"],
        ),
        (
            f"- {sentence(15)}\n\n  ```\n  {sentence(12, 'code')}\n  ```\n- {sentence(15)}",
            [f"```\n{sentence(12, 'code')}\n```"],
        ),
        (f":::note\n{sentence(20)}\n\n```\n{lines(4)}\n```\n:::", [f"```\n{lines(4)}\n```"]),
    ],
)
def test_listings_and_tables_stay_whole(source: str, wholes: list[str]) -> None:
    texts = [piece.text for piece in pieces(source)]
    for whole in wholes:
        assert sum(whole in text for text in texts) == 1, texts


@pytest.mark.parametrize(
    "source",
    [
        f":::tip A telling name\n```\n{lines(20)}\n```\n:::",
        f":::tip A telling name\n{sentence(15, 'a')} {sentence(15, 'b')}\n:::",
        f"{sentence(20)}\n\n:::tip A telling name\n```\n{lines(6)}\n```\n:::",
        f":::tip A telling name\n- {sentence(15, 'a')}\n- {sentence(15, 'b')}\n:::",
    ],
)
def test_a_name_never_stands_alone(source: str) -> None:
    texts = [piece.text for piece in pieces(source)]
    [named] = [text for text in texts if "A telling name" in text]
    assert not named.endswith("**A telling name**")
    assert all(words(f"Page\n{text}") <= ROOM for text in texts)
