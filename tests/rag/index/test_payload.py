"""How chunks, filters and records look inside Qdrant."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from rag.errors import IndexingError
from rag.index import ForeignCourse
from rag.index.payload import (
    CHUNK_INDEXES,
    AnyOf,
    Condition,
    Equals,
    NotAfter,
    Within,
    chunk_payload,
    conditions,
    course_summaries,
    document_terms,
    foreign_courses,
    ingestion_state,
    other_state_collections,
    point_ids,
    query_terms,
    state_id,
    stored_chunk,
)
from rag.types import CourseSummary, SearchFilters
from tests.factories import make_chunk

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEYWORDS = {"module", "proficiency_level", "layer", "parent_doc_id", "content_hash"}


def test_the_payload_has_the_fields_of_the_specification() -> None:
    payload = chunk_payload(make_chunk(created_at=NOON))
    named = """book_id module chapter lesson hardware_tier proficiency_level layer parent_doc_id
        content_hash source_file_hash text section_title source_file chunk_index total_chunks
        prev_chunk_id next_chunk_id word_count token_count version created_at updated_at"""
    assert set(named.split()) <= set(payload)
    assert payload["created_at"] == "2026-03-01T12:00:00Z"
    assert "id" not in payload
    assert "metadata" not in payload


def test_the_indexed_fields_are_those_of_the_specification_and_our_three() -> None:
    kinds = dict(CHUNK_INDEXES)
    assert kinds.pop("book_id") == "tenant"
    for field in ("chapter", "lesson", "hardware_tier"):
        assert kinds.pop(field) == "integer"
    assert (kinds.pop("available_from"), kinds.pop("assessment")) == ("datetime", "bool")
    assert set(kinds) == KEYWORDS | {"source_file", "source_file_hash"}
    assert set(kinds.values()) == {"keyword"}


def test_every_indexed_field_is_in_the_payload() -> None:
    assert set(CHUNK_INDEXES) <= set(chunk_payload(make_chunk()))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, []),
        ({"hardware_tier_filter": 2}, [Within("hardware_tier", None, 2)]),
        ({"module_filter": "ros2"}, [Equals("module", "ros2")]),
        ({"chapter_min": 0}, [Within("chapter", 0, None)]),
        ({"chapter_min": 1, "chapter_max": 4}, [Within("chapter", 1, 4)]),
        ({"lesson_filter": 0}, [Equals("lesson", 0)]),
        ({"proficiency_levels": ["A2", "B1"]}, [AnyOf("proficiency_level", ["A2", "B1"])]),
        ({"proficiency_levels": []}, []),
        ({"layer_filter": "L1"}, [Equals("layer", "L1")]),
        ({"parent_doc_id": "p"}, [Equals("parent_doc_id", "p")]),
    ],
)
def test_conditions(filters: dict[str, Any], expected: list[Condition]) -> None:
    assert conditions(SearchFilters(book_id="b", **filters)) == [Equals("book_id", "b"), *expected]


def test_a_search_adds_the_moment() -> None:
    found = conditions(SearchFilters(book_id="b"), available_at=NOON)
    assert found == [Equals("book_id", "b"), NotAfter("available_from", NOON)]


def test_a_foreign_point_is_a_clear_error() -> None:
    with pytest.raises(IndexingError, match=r"chunk 7 is not one of ours; ingest"):
        stored_chunk(7, {"text": "someone else's"}, [1.0])
    with pytest.raises(IndexingError, match=r"chunk 7 is not one of ours"):
        stored_chunk(7, None, [1.0])


def test_a_field_that_a_later_version_added_is_ignored() -> None:
    chunk = make_chunk()
    payload = chunk_payload(chunk) | {"mood": "curious"}
    assert stored_chunk(chunk.id, payload, [1.0]).chunk == chunk


def test_a_damaged_record_is_a_clear_error() -> None:
    with pytest.raises(IndexingError, match="damaged"):
        course_summaries([{"kind": "course"}])
    with pytest.raises(IndexingError, match="damaged"):
        ingestion_state("b", "chunks", [{"kind": "file", "source_file": "a.md"}])


@pytest.mark.parametrize(
    ("name", "is_another"),
    [
        ("books__embed-v4-0__1536_state", True),
        ("books__all-minilm-l6-v2__256_state", True),
        ("books__all-minilm-l6-v2__384_state", False),  # our own
        ("books__embed-v4-0__1536", False),  # chunks, not state
        ("books2__embed-v4-0__1536_state", False),
        ("my__books__embed-v4-0__1536_state", False),
        ("books_state", False),
        ("bo.ks__embed-v4-0__1536_state", False),
    ],
)
def test_collections_of_other_models(name: str, is_another: bool) -> None:
    found = other_state_collections("books__all-minilm-l6-v2__384", [name])
    assert found == ([name] if is_another else [])


def test_a_prefix_may_hold_the_separator() -> None:
    name = "my__books__embed-v4-0__1536_state"
    assert other_state_collections("my__books__minilm__384", [name]) == [name]
    payload = CourseSummary(book_id="chess", title="Chess").model_dump(mode="json")
    assert foreign_courses(name, [payload]) == [ForeignCourse("chess", "embed-v4-0", 1536)]


def test_state_ids_are_distinct_however_names_are_cut() -> None:
    places = [("a", "b:c"), ("a:b", "c"), ("a", None), ("a", ""), ("a", '", "b'), ("b", None)]
    assert len({state_id(*place) for place in places}) == len(places)


def test_point_ids_are_canonical_and_distinct() -> None:
    good = "38d95990-c29b-577e-b1f9-8041955a0894"
    assert point_ids([good, "x", "", good, good.upper(), "7", good.replace("-", "")]) == [good]


def test_query_terms_carry_their_weights() -> None:
    found = query_terms({"robot": 1.0, "the robots walk": 0.3})
    assert found is not None
    assert sorted(found.values) == pytest.approx([0.3, 1.0])


def test_a_lone_surrogate_can_be_indexed_and_asked() -> None:
    assert query_terms({"robot \ud83d": 1.0}) is not None
    broken = make_chunk().model_copy(update={"text": "A robot \ud83d walks."})
    assert document_terms(broken) is not None


def test_vectors_are_read_as_float32() -> None:
    chunk = make_chunk()
    found = stored_chunk(chunk.id, chunk_payload(chunk), [0.6, 0.8])
    np.testing.assert_array_equal(found.vector, np.array([0.6, 0.8], dtype=np.float32))
