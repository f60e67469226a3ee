import pytest

from rag.ingestion.boilerplate import (
    FEWEST_FILES,
    SAMPLED_FILES,
    candidates,
    digests,
    left_out,
    sample,
    without,
)

FOOTER = "Licensed under CC BY 4.0,\nsee the licence file."


def pages(count: int, *, with_footer: int) -> dict[str, str]:
    names = [f"{n:03}.md" for n in range(count)]
    return {
        name: f"# Page {n}\n\nOwn text of page {n}.\n\n" + (FOOTER if n < with_footer else "")
        for n, name in enumerate(names)
    }


def cleaned(texts: dict[str, str]) -> dict[str, str]:
    common = candidates(texts.values())
    held = {file: common.intersection(digests(text)) for file, text in texts.items()}
    unwanted = left_out(held)
    return {file: without(text, unwanted.get(file, frozenset())) for file, text in texts.items()}


def test_what_stands_in_most_files_is_kept_in_the_first_alone() -> None:
    found = cleaned(pages(8, with_footer=8))
    assert [file for file, text in found.items() if FOOTER in text] == ["000.md"]
    assert all("Own text" in text for text in found.values())


@pytest.mark.parametrize(
    ("count", "with_footer"),
    [(8, 3), (FEWEST_FILES - 1, FEWEST_FILES - 1), (1, 1)],
)
def test_what_stands_in_few_files_stays(count: int, with_footer: int) -> None:
    texts = pages(count, with_footer=with_footer)
    assert cleaned(texts) == texts


@pytest.mark.parametrize(
    "paragraph",
    [
        "## Prerequisites",
        "Prerequisites and more\n----------------------",
        "```sh\nsudo apt install\n```",
        "```sh\none two\n\nthree four\n```",
        ":::note Read this\nText.\n:::",
        ".. note:: Read this",
        "| a | b |\n|---|---|",
        "    indented code here",
        "</TabItem> </Tabs>",
        "---",
        "Word",
    ],
)
def test_headings_code_and_markup_are_never_boilerplate(paragraph: str) -> None:
    texts = {f"{n}.md": f"Own {n}.\n\n{paragraph}\n\nMore {n}." for n in range(8)}
    assert cleaned(texts) == texts


def test_line_breaks_and_spaces_do_not_matter() -> None:
    texts = {f"{n}.md": FOOTER.replace("\n", "\n  " if n % 2 else " ") for n in range(8)}
    assert [bool(text) for text in cleaned(texts).values()] == [True] + [False] * 7


def test_text_around_is_untouched() -> None:
    text = f"a b\n\n\n{FOOTER}\n\n```\nx\n\ny\n```\nc d\n"
    unwanted = frozenset(digests(FOOTER))
    assert without(text, unwanted) == "a b\n\n\n\n```\nx\n\ny\n```\nc d\n"
    assert without(text, frozenset()) == text


def test_a_large_course_is_sampled_evenly() -> None:
    assert list(sample(range(3))) == [0, 1, 2]
    chosen = sample(range(1000))
    assert len(chosen) == SAMPLED_FILES
    assert chosen[-1] > 900
