"""The two policies, at their boundaries."""

import numpy as np
import pytest

from rag.confidence import (
    Calibration,
    Evidence,
    Features,
    calibrated,
    diversity,
    evidence_of,
    rarity,
    seed,
    seed_level,
    weighted_share,
)
from rag.embedding import Vector
from rag.index import Candidate
from rag.profile import Vocabulary, Yardstick
from rag.terms import query_vector
from rag.types import ConfidenceLevel, SearchResult
from tests.factories import make_chunk

CALIBRATION = Calibration(
    weights={"best": 4.0, "nearest": 4.0, "known": 2.0, "files": -1.0},
    intercept=-4.0,
    high=0.8,
    medium=0.5,
    low=0.25,
)


def results(*similarities: float) -> list[SearchResult]:
    return [
        SearchResult.of(make_chunk(f"Passage number {n}."), score=0.5, similarity=s, rank=n)
        for n, s in enumerate(similarities, 1)
    ]


def units(*rows: list[float]) -> list[Vector]:
    return [np.array(row, np.float32) for row in rows]


@pytest.mark.parametrize(
    ("average", "chunks", "level"),
    [
        (0.85, 5, "high"),
        (0.8499, 5, "medium"),
        (0.85, 4, "medium"),
        (0.75, 3, "medium"),
        (0.7499, 3, "low"),
        (0.85, 2, "low"),
        (0.60, 2, "low"),
        (0.5999, 5, "insufficient"),
        (0.99, 1, "insufficient"),
        (0.0, 0, "insufficient"),
    ],
)
def test_003_the_levels_at_their_boundaries(
    average: float, chunks: int, level: ConfidenceLevel
) -> None:
    assert seed_level(average, chunks) == level


def test_003_every_field_of_the_metrics() -> None:
    metrics = seed(results(0.92, 0.85, 0.78), units([1, 0], [1, 0], [0, 1]))
    assert metrics.average_similarity == pytest.approx(0.85)
    assert (metrics.min_similarity, metrics.max_similarity) == (0.78, 0.92)
    assert metrics.num_chunks == 3
    assert metrics.chunk_diversity == pytest.approx(2 / 3)
    assert (metrics.confidence_level, metrics.should_answer) == ("medium", True)
    assert (metrics.policy, metrics.p_answerable) == ("seed", None)


def test_003_low_answers_and_insufficient_refuses() -> None:
    assert seed(results(0.6, 0.6), units([1, 0], [0, 1])).should_answer
    assert not seed(results(0.5, 0.5), units([1, 0], [0, 1])).should_answer
    assert not seed([], []).should_answer


@pytest.mark.parametrize(
    ("vectors", "expected"),
    [
        ([], 0.0),
        ([[1.0, 0.0]], 0.0),
        ([[1.0, 0.0], [1.0, 0.0]], 0.0),
        ([[1.0, 0.0], [0.0, 1.0]], 1.0),
        ([[1.0, 0.0], [-1.0, 0.0]], 1.0),
        ([[1.0, 0.0], [0.6, 0.8]], 0.4),
    ],
)
def test_003_diversity(vectors: list[list[float]], expected: float) -> None:
    assert diversity(units(*vectors)) == pytest.approx(expected, abs=1e-6)


def test_the_calibrated_policy_says_how_likely_an_answer_is() -> None:
    sure = Features(best=0.9, nearest=0.8, known=1.0, files=0.25)
    metrics = calibrated(results(0.4), units([1, 0]), sure, CALIBRATION)
    assert metrics.policy == "calibrated"
    assert metrics.p_answerable == pytest.approx(1 / (1 + np.exp(-4.55)))
    assert metrics.confidence == metrics.p_answerable
    assert (metrics.confidence_level, metrics.should_answer) == ("high", True)


def test_nothing_found_is_nothing_to_answer_from() -> None:
    sure = Features(best=0.9, nearest=0.8, known=1.0, files=0.25)
    metrics = calibrated([], [], sure, CALIBRATION)
    assert (metrics.p_answerable, metrics.should_answer) == (0.0, False)


@pytest.mark.parametrize(
    ("probability", "level"),
    [
        (1.0, "high"),
        (0.8, "high"),
        (0.79, "medium"),
        (0.5, "medium"),
        (0.49, "low"),
        (0.25, "low"),
        (0.249, "insufficient"),
        (0.0, "insufficient"),
    ],
)
def test_the_calibrated_levels_at_their_boundaries(
    probability: float, level: ConfidenceLevel
) -> None:
    assert CALIBRATION.level(probability) == level


def test_one_absurd_figure_does_not_decide_alone() -> None:
    absurd = Features(best=1e9, nearest=-1e9, known=0.0, files=0.0)
    assert CALIBRATION.probability(absurd) == pytest.approx(1 / (1 + np.exp(2.0)))


def test_the_shipped_calibration_prefers_what_it_should() -> None:
    shipped = Calibration.shipped()
    good = Features(best=0.7, nearest=0.6, known=1.0, files=0.25)
    bad = Features(best=0.05, nearest=0.0, known=0.4, files=1.0)
    assert shipped.level(shipped.probability(good)) in ("medium", "high")
    assert shipped.level(shipped.probability(bad)) == "insufficient"
    assert 0 < shipped.low < shipped.medium < shipped.high < 1


def test_features_do_not_notice_a_linear_rescaling_of_the_cosines() -> None:
    yardstick = Yardstick(chance=0.2, kinship=0.8)
    rescaled = Yardstick(chance=0.5 * 0.2 + 0.4, kinship=0.5 * 0.8 + 0.4)
    plain = Evidence(best=0.6, nearest=0.5, known=1.0, files=0.0)
    scaled = Evidence(best=0.5 * 0.6 + 0.4, nearest=0.5 * 0.5 + 0.4, known=1.0, files=0.0)
    one = Features.of(plain, {"best": yardstick, "nearest": yardstick})
    other = Features.of(scaled, {"best": rescaled, "nearest": rescaled})
    assert vars(one) == pytest.approx(vars(other))


def test_evidence() -> None:
    found = [
        Candidate(str(n), file, str(n), cosine, 0.0)
        for n, (file, cosine) in enumerate([("a", 0.5), ("a", 0.7), ("b", 0.3)])
    ]
    words = query_vector({"topics unicorns": 1.0})
    vocabulary = Vocabulary(chunks=10, frequency=dict.fromkeys(query_vector({"topics": 1.0}), 5))
    evidence = evidence_of(found, words, vocabulary)
    assert (evidence.best, evidence.files) == (0.7, 0.5)
    assert evidence.nearest == pytest.approx(0.5)
    assert 0.0 < evidence.known < 0.5  # the unknown word is the rarer one


def test_no_candidates_are_no_evidence() -> None:
    nothing = evidence_of([], {}, Vocabulary(chunks=10, frequency={}))
    assert nothing == Evidence(best=0.0, nearest=0.0, known=0.0, files=0.0)


def test_words() -> None:
    assert rarity(0, 100) > rarity(1, 100) > rarity(100, 100) > 0
    assert weighted_share({1: 3.0, 2: 1.0}, {1}) == 0.75
    assert weighted_share({}, {1}) == 0.0
