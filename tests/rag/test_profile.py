"""What is measured of a whole course."""

from pathlib import Path

import numpy as np
import pytest

from rag.index import StoredChunk
from rag.index.edge import EdgeIndex
from rag.profile import (
    Vocabulary,
    Yardstick,
    build_profile,
    cosine_deviation,
    kinship,
    places_of,
    vocabulary_of,
)
from rag.terms import query_vector
from tests.factories import make_chunk
from tests.fakes import WordEmbedder


def stored(text: str, vector: list[float], **place: object) -> StoredChunk:
    unit = np.array(vector, np.float32)
    return StoredChunk(make_chunk(text, **place), (unit / np.linalg.norm(unit)).astype(np.float32))


def test_a_yardstick_has_0_at_chance_and_1_at_kinship() -> None:
    yardstick = Yardstick(chance=0.2, kinship=0.7)
    assert yardstick.standardised(0.2) == 0.0
    assert yardstick.standardised(0.7) == pytest.approx(1.0)
    assert yardstick.standardised(0.45) == pytest.approx(0.5)


def test_a_yardstick_of_no_length_does_not_divide_by_zero() -> None:
    assert Yardstick(chance=0.5, kinship=0.5).standardised(0.5) == 0.0


def test_words_are_counted_once_a_passage() -> None:
    passages = [stored("topics and topics again", [1, 0]), stored("topics only here", [0, 1])]
    vocabulary = vocabulary_of(passages)
    (topic,) = query_vector({"topics": 1.0})
    assert (vocabulary.chunks, vocabulary.frequency[topic]) == (2, 2)


def test_a_word_in_every_passage_varies_as_little_as_one_in_none() -> None:
    vocabulary = Vocabulary(chunks=100, frequency={1: 100, 2: 10})
    assert vocabulary.chance_deviation({1: 1.0}) == 0.0
    assert vocabulary.chance_deviation({3: 1.0}) == 0.0
    assert vocabulary.chance_deviation({2: 1.0}) > 0.0
    half = vocabulary.chance_deviation({2: 0.5})
    assert half == pytest.approx(vocabulary.chance_deviation({2: 1.0}) / 2)


def test_kinship_is_the_median_of_the_nearest_other() -> None:
    passages = [
        stored("passage one", [1, 0]),
        stored("passage two", [1, 0]),
        stored("passage three", [0.6, 0.8]),
    ]
    assert kinship(passages) == pytest.approx(1.0)
    assert kinship(passages[:1]) == 1.0


def test_the_deviation_of_cosines() -> None:
    passages = [stored("passage one", [1, 0]), stored("passage two", [0, 1])]
    question = np.array([1.0, 0.0], np.float32)
    assert cosine_deviation(passages, [question]) == pytest.approx(0.5)


def test_only_declared_places_are_kept() -> None:
    passages = [
        stored("passage one", [1, 0], chapter=2, chapter_declared=True),
        stored("passage two", [1, 0], chapter=7),
    ]
    assert places_of(passages) == [("ros2", 2, 1)]


async def test_a_course_without_passages_has_no_profile(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    index = EdgeIndex.open(tmp_path, "chunks", embedder.dimension)
    assert await build_profile(index, embedder, "robotics") is None
    index.close()


async def test_a_profile_survives_being_stored(tmp_path: Path) -> None:
    embedder = WordEmbedder(dimension=64)
    index = EdgeIndex.open(tmp_path, "chunks", embedder.dimension)
    texts = ["Nodes exchange typed messages.", "Topics carry messages.", "Worlds contain lights."]
    chunks = [make_chunk(text, chunk_index=n) for n, text in enumerate(texts)]
    await index.write([StoredChunk(c, embedder.vector(c.embedding_input)) for c in chunks])
    profile = await build_profile(index, embedder, "robotics")
    index.close()
    assert profile is not None
    assert type(profile).model_validate(profile.model_dump(mode="json")) == profile
    assert set(profile.yardsticks) == {"best", "nearest"}
    assert profile.vocabulary.chunks == 3
