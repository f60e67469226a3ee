"""Markers become citations, however the text arrives."""

import pytest

from rag.citations import CitationWriter, best_passage, without_markers
from rag.types import SearchResult
from tests.passages import SERVICES, TOPICS, make_passage, make_passages

PASSAGES = make_passages(TOPICS, SERVICES, "Nodes do one job each.")


def rewritten(*pieces: str, passages: list[SearchResult] = PASSAGES) -> tuple[str, list[int]]:
    """The text as a student sees it, and the ranks of the passages it cites."""
    writer = CitationWriter(passages)
    shown = "".join(writer.feed(piece)[0] for piece in pieces) + writer.finish()[0]
    ranks = {passage.chunk_id: passage.rank for passage in passages}
    return shown, [ranks[chunk] for chunk in writer.cited_chunk_ids]


@pytest.mark.parametrize(
    ("written", "shown", "cited"),
    [
        ("Topics are typed [2].", "Topics are typed [1].", [2]),
        ('Typed [2|"one message type"].', "Typed [1].", [2]),
        ("Typed [2|“one message type”].", "Typed [1].", [2]),
        ("Typed [2|one message type].", "Typed [1].", [2]),
        ('Typed [2|"an [odd] quotation"].', "Typed [1].", [2]),
        ("Both [2, 1].", "Both [1][2].", [2, 1]),
        ("First [3]. Then [1]. Again [3].", "First [1]. Then [2]. Again [1].", [3, 1]),
        ("Twice [1][1].", "Twice [1].", [1]),
        ("Nobody [9].", "Nobody.", []),
        ("Zero [0], one [1].", "Zero, one [1].", [1]),
        ("No marker at all.", "No marker at all.", []),
        ("An index `a[1]` stays.", "An index `a[1]` stays.", []),
        ("Two ticks ``a[1]`b`` stay [1].", "Two ticks ``a[1]`b`` stay [1].", [1]),
        ("```\na[1]\n```\nDone [2].", "```\na[1]\n```\nDone [1].", [2]),
        ("~~~\na[1]\n~~~\nDone [2].", "~~~\na[1]\n~~~\nDone [1].", [2]),
        ("A list:\n- one [1]\n- two [2]", "A list:\n- one [1]\n- two [2]", [1, 2]),
        ("A [link](https://a.example) stays.", "A [link](https://a.example) stays.", []),
        ("Cut off [2", "Cut off", []),
        ('Cut off [2|"one mess', "Cut off", []),
        ("```\nnever closed", "```\nnever closed\n```", []),
        ("", "", []),
    ],
)
def test_markers_are_numbered_by_first_use(written: str, shown: str, cited: list[int]) -> None:
    assert rewritten(written) == (shown, cited)


LONG = (
    'Topics are typed [2|"one message type"] and `x[1]` is code [1, 3].\n\n'
    "- first item [1]\n- second item [9]\n\n"
    '```python\nvalues[2] = "[3]"\n```\n\n'
    '| a | b |\n|---|---|\n| 1 [2] | 2 |\n\n~~~\n[1]\n~~~\nThe end [3|"one job"].'
)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 23])
def test_the_cuts_of_a_stream_change_nothing(size: int) -> None:
    pieces = [LONG[start : start + size] for start in range(0, len(LONG), size)]
    assert rewritten(*pieces) == rewritten(LONG)


@pytest.mark.parametrize("cut", range(len(LONG)))
def test_a_stream_may_be_cut_anywhere(cut: int) -> None:
    assert rewritten(LONG[:cut], LONG[cut:]) == rewritten(LONG)


def test_a_citation_comes_with_the_piece_that_introduces_it() -> None:
    writer = CitationWriter(PASSAGES)
    assert writer.feed("Topics are typed [2] and ")[1][0].section == "Section 2"
    assert writer.feed("named [2].")[1] == []


def test_passages_of_one_section_share_a_number() -> None:
    same = {"section_title": "Topics", "url": "/read/robotics/nodes.md#topics"}
    passages = [make_passage(TOPICS, 1, **same), make_passage(SERVICES, 2, **same)]
    writer = CitationWriter(passages)
    assert writer.feed("One [1]. Two [2]. ")[0] + writer.finish()[0] == "One [1]. Two [1]. "
    assert len(writer.citations) == 1
    assert writer.cited_chunk_ids == [passage.chunk_id for passage in passages]


def test_numbers_of_an_earlier_answer_are_taken_out() -> None:
    assert without_markers("Typed [1], named [2]. `a[1]`") == "Typed, named. `a[1]`"


def test_the_best_passage_shares_most_words() -> None:
    assert best_passage("The client gets one response.", PASSAGES).text == SERVICES
