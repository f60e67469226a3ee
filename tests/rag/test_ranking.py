"""Both scores joined, pooled by file, spread over files."""

from collections.abc import Sequence

import numpy as np
import pytest

from rag.embedding import Vector
from rag.index import Candidate
from rag.ranking import (
    Passage,
    Ranked,
    Scales,
    as_results,
    distinct,
    in_units,
    new_ones,
    rank,
    reordered,
    spread,
)
from tests.factories import make_chunk

SCALES = Scales(cosine=0.05, bm25=1.0)


def candidate(text: str, cosine: float, bm25: float = 0.0, file: str = "a.md") -> Candidate:
    return Candidate(f"{text} in {file}", file, text, cosine, bm25)


def texts(ranked: Sequence[Ranked]) -> list[str]:
    return [entry.candidate.content_hash for entry in ranked]


def passage(text: str, vector: Vector, cosine: float = 0.5, file: str = "a.md") -> Passage:
    found = Ranked(candidate(text, cosine, 0.0, file), 20.0)
    return Passage(found, make_chunk(text, source_file=file), vector)


def test_meaning_and_words_count_together() -> None:
    by_meaning = candidate("Close in meaning.", 0.5, 0.0, "a.md")
    by_words = candidate("Close in words.", 0.3, 3.0, "b.md")
    by_both = candidate("Close in both ways.", 0.45, 2.5, "c.md")
    ranked = rank([by_meaning, by_words, by_both], SCALES)
    assert texts(ranked)[0] == "Close in both ways."


def test_a_file_with_several_good_passages_is_lifted() -> None:
    alone = candidate("The only one here.", 0.52, 0.0, "single.md")
    several = [candidate(f"One of several {n}.", 0.5, 0.0, "lesson.md") for n in range(3)]
    far = [candidate(f"Far away {n}.", 0.1, 0.0, f"far{n}.md") for n in range(6)]
    assert rank([alone, *several, *far], SCALES)[0].file == "lesson.md"


def test_rescaled_cosines_leave_the_order() -> None:
    cosines = [0.2, 0.6, 0.5, 0.3]
    words = [3.0, 0.0, 1.0, 2.0]
    plain = [
        candidate(f"Text {n}.", c, w) for n, (c, w) in enumerate(zip(cosines, words, strict=True))
    ]
    scaled = [c._replace(cosine=0.5 * c.cosine + 0.4) for c in plain]
    half = Scales(SCALES.cosine / 2, SCALES.bm25)
    assert texts(rank(plain, SCALES)) == texts(rank(scaled, half))


def test_scores_lie_between_0_and_1_and_fall() -> None:
    found = [candidate(f"Text number {n}.", n / 10, n / 2, f"{n}.md") for n in range(10)]
    scores = [entry.score for entry in rank(found, SCALES)]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert Ranked(found[0], -1e9).score == pytest.approx(0.0)


def test_the_best_score_is_not_always_one() -> None:
    weak = [candidate(f"Weak text {n}.", 0.1 + n / 100) for n in range(5)]
    assert rank(weak, SCALES)[0].score < 0.5


@pytest.mark.parametrize("found", [[], [candidate("The only one.", 0.4, 2.0)]])
def test_few_candidates(found: list[Candidate]) -> None:
    assert len(rank(found, SCALES)) == len(found) == len(rank(found))


def test_scores_that_do_not_vary_say_nothing() -> None:
    assert in_units(np.array([0.3, 0.3]), 0.0).tolist() == [0.0, 0.0]


def test_the_same_text_counts_once() -> None:
    first, second = (
        candidate("Twice told.", 0.5, 0, "a.md"),
        candidate("Twice told.", 0.4, 0, "b.md"),
    )
    assert [e.file for e in distinct(rank([first, second], SCALES))] == ["a.md"]


def ranked(*entries: tuple[str, str, float]) -> list[Ranked]:
    return [Ranked(candidate(text, 0.5, 0.0, file), fused) for text, file, fused in entries]


def test_other_files_come_before_a_file_s_second_passage() -> None:
    order = spread(ranked(("A one.", "a", 20), ("A two.", "a", 18), ("B one.", "b", 10)), 3)
    assert texts(order) == ["A one.", "B one.", "A two."]


def test_a_much_better_second_passage_keeps_its_place() -> None:
    order = spread(ranked(("A one.", "a", 30), ("A two.", "a", 28), ("B one.", "b", 10)), 2)
    assert texts(order) == ["A one.", "A two."]


def test_one_file_fills_all_places_when_there_is_no_other() -> None:
    assert len(spread(ranked(*((f"A {n} text.", "a", 9.0 - n) for n in range(6))), 5)) == 5


def test_more_places_only_add_to_the_end() -> None:
    all_of_them = ranked(*((f"Text no {n}.", f"{n % 3}", 30.0 - n) for n in range(9)))
    assert texts(spread(all_of_them, 8))[:5] == texts(spread(all_of_them, 5))


def test_near_repetitions_are_left_out() -> None:
    same, other = np.eye(2, dtype=np.float32)
    text = "A topic carries typed messages from any number of publishers to subscribers"
    entries = [
        passage(f"{text}.", same, file="a.md"),
        passage(f"{text}, too.", same, file="b.md"),
        passage("Services answer requests.", other, file="c.md"),
        passage("Actions take their time.", same, file="d.md"),
    ]
    assert [entry.ranked.file for entry in new_ones(entries, 2)] == ["a.md", "c.md"]
    assert [entry.ranked.file for entry in new_ones(entries, 5)] == ["a.md", "c.md", "d.md"]


def test_a_reranker_s_order_stands_before_what_it_did_not_see() -> None:
    entries = ranked(("First one.", "a", 9), ("Second one.", "b", 8), ("Third one.", "c", 7))
    order = reordered(entries, [0.1, 0.9])
    assert texts(order) == ["Second one.", "First one.", "Third one."]
    assert [e.score for e in order] == sorted((e.score for e in order), reverse=True)


def test_results_carry_rank_and_a_clamped_similarity() -> None:
    results = as_results([passage("Opposite of it.", np.ones(2, np.float32), -0.2)])
    assert (results[0].rank, results[0].similarity) == (1, 0.0)
