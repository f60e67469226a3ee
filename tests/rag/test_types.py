"""The seeds' validation rules and invariants, by name, on the classes that carry them."""

import json
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from rag.types import (
    MAX_MESSAGES,
    AgentConfig,
    AgentResponse,
    Citation,
    ConfidenceLabel,
    ConfidenceLevel,
    ConfidenceMetrics,
    Conversation,
    DocumentChunk,
    DocumentMetadata,
    IngestionJob,
    IngestionRecord,
    IngestionState,
    Message,
    RetrievalContext,
    SearchFilters,
    SearchQuery,
    SearchResponse,
    SearchResult,
    ToolCall,
    chunk_id,
    now,
    parent_id,
)
from tests.factories import make_chunk

DNS = uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


# --- 002: the three-lesson instance --------------------------------------------------------------


def lesson_chain(lesson: int, texts: list[str], tiers: list[int]) -> list[DocumentChunk]:
    ids = [make_chunk(text, lesson=lesson).id for text in texts]
    return [
        make_chunk(
            text,
            lesson=lesson,
            hardware_tier=tier,
            chunk_index=i,
            total_chunks=len(texts),
            prev_chunk_id=ids[i - 1] if i else None,
            next_chunk_id=ids[i + 1] if i + 1 < len(texts) else None,
        )
        for i, (text, tier) in enumerate(zip(texts, tiers, strict=True))
    ]


def three_lessons() -> dict[str, list[DocumentChunk]]:
    texts = [f"The text of chunk c{i}." for i in range(9)]
    return {
        "A": lesson_chain(1, texts[:5], [1, 1, 2, 3, 1]),
        "B": lesson_chain(2, texts[5:8], [1, 1, 1]),
        "C": lesson_chain(3, texts[8:], [1]),
    }


def test_002_coverage_every_chunk_has_a_parent() -> None:
    chunks = [chunk for lesson in three_lessons().values() for chunk in lesson]
    assert len(chunks) == 9
    assert all(chunk.metadata.parent_doc_id for chunk in chunks)


def test_002_context_chain_integrity() -> None:
    for lesson in three_lessons().values():
        ids = [None, *(chunk.id for chunk in lesson), None]
        for place, chunk in enumerate(lesson, 1):
            assert chunk.metadata.prev_chunk_id == ids[place - 1]
            assert chunk.metadata.next_chunk_id == ids[place + 1]


def test_002_no_chunk_is_reachable_from_itself() -> None:
    for lesson in three_lessons().values():
        following = {chunk.id: chunk.metadata.next_chunk_id for chunk in lesson}
        for start in following:
            seen: set[str] = set()
            at = following[start]
            while at is not None:
                assert at != start
                assert at not in seen
                seen.add(at)
                at = following[at]


def test_002_parent_document_grouping() -> None:
    parents = {
        name: {c.metadata.parent_doc_id for c in lesson} for name, lesson in three_lessons().items()
    }
    assert all(len(parent) == 1 for parent in parents.values())
    assert len(set.union(*parents.values())) == 3
    for lesson in three_lessons().values():
        assert [c.metadata.chunk_index for c in lesson] == list(range(len(lesson)))


# --- 002: ids ------------------------------------------------------------------------------------


def test_002_chunk_id_is_the_uuid5_of_place_and_content() -> None:
    digest = "0123456789abcdef" + "f" * 48
    expected = str(uuid.uuid5(DNS, "book:ros2:1:2:0123456789abcdef"))
    assert chunk_id("book", "ros2", 1, 2, digest) == expected


def test_002_parent_id_is_the_uuid5_of_the_lesson() -> None:
    assert parent_id("book", "ros2", 1, 2) == str(uuid.uuid5(DNS, "book:ros2:1:2:parent"))


def test_002_id_changes_with_the_text_and_stays_without() -> None:
    assert make_chunk("Some words.").id == make_chunk("Some words.").id
    assert make_chunk("Some words.").id != make_chunk("Other words.").id


# --- 002: DocumentChunk and DocumentMetadata -----------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": "too short"[:9]},
        {"text": "  not stripped text"},
        {"text": "not stripped text\n"},
        {"word_count": 0},
        {"token_count": 0},
        {"char_count": 0},
    ],
)
def test_002_chunk_rules(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        make_chunk(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"book_id": ""},
        {"module": ""},
        {"chapter": -1},
        {"lesson": -1},
        {"hardware_tier": 0},
        {"hardware_tier": 5},
        {"proficiency_level": "D1"},
        {"layer": "L5"},
        {"source_file": ""},
        {"chunk_index": -1, "total_chunks": 1},
        {"chunk_index": 0, "total_chunks": 0},
        {"version": 0},
        {"page_title": ""},
        {"chapter_title": ""},
        {"url": ""},
        {"created_at": datetime(2026, 1, 1)},  # noqa: DTZ001
    ],
)
def test_002_metadata_rules(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        make_chunk(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"chunk_index": 2, "total_chunks": 2}, "below total_chunks"),
        ({"chunk_index": 0, "total_chunks": 2, "prev_chunk_id": "x"}, "no previous chunk"),
        ({"chunk_index": 1, "total_chunks": 2, "next_chunk_id": "x"}, "no next chunk"),
    ],
)
def test_002_position_and_chain_agree(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        make_chunk(**wrong)


def test_002_defaults() -> None:
    metadata = make_chunk().metadata
    assert (metadata.hardware_tier, metadata.proficiency_level, metadata.layer) == (1, "A2", "L1")
    assert (metadata.version, metadata.section_title) == (1, None)


def test_chapters_and_lessons_have_no_upper_cap() -> None:
    metadata = make_chunk(chapter=120, lesson=99).metadata
    assert (metadata.chapter, metadata.lesson) == (120, 99)


def test_the_section_is_the_heading_or_the_page() -> None:
    assert make_chunk(section_title="Topics").metadata.section == "Topics"
    assert make_chunk(page_title="Nodes").metadata.section == "Nodes"


def test_what_is_embedded_is_the_heading_path_and_the_text() -> None:
    assert make_chunk("Some words.", breadcrumb="A > B").embedding_input == "A > B\nSome words."
    assert make_chunk("Some words.", breadcrumb="").embedding_input == "Some words."


def test_times_are_kept_in_utc() -> None:
    berlin = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=1)))
    assert make_chunk(created_at=berlin).metadata.created_at == datetime(2026, 1, 1, 11, tzinfo=UTC)


def test_the_payload_fields_of_002_are_all_there() -> None:
    seed = {
        "book_id module chapter lesson hardware_tier proficiency_level layer parent_doc_id",
        "content_hash source_file_hash section_title source_file chunk_index total_chunks",
        "prev_chunk_id next_chunk_id version created_at updated_at",
    }
    assert {name for line in seed for name in line.split()} <= set(DocumentMetadata.model_fields)
    assert {"text", "word_count", "token_count"} <= set(DocumentChunk.model_fields)


# --- 002: searching ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": "ab"},
        {"text": "  a  "},
        {"limit": 0},
        {"limit": 21},
        {"hardware_tier_filter": 5},
        {"chapter_min": -1},
        {"chapter_min": 3, "chapter_max": 2},
        {"proficiency_levels": ["Z9"]},
        {"layer_filter": "L7"},
    ],
)
def test_002_search_query_rules(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SearchQuery.model_validate({"text": "topics", "book_id": "b"} | wrong)


@pytest.mark.parametrize("limit", [1, 20])
def test_002_search_query_defaults_and_bounds(limit: int) -> None:
    query = SearchQuery(text="  topics ", book_id="b", limit=limit)
    assert (query.text, query.limit) == ("topics", limit)
    assert SearchQuery(text="topics", book_id="b").limit == 5
    assert query.filters == SearchFilters(book_id="b")


def test_filters_describe_themselves_for_the_log() -> None:
    assert SearchFilters(book_id="b").described() is None
    assert SearchFilters(book_id="b", lesson_filter=0).described() == "lesson_filter=0"


def result(rank: int = 1, **changes: Any) -> SearchResult:
    scores = {"score": 0.5, "similarity": 0.5} | changes
    return SearchResult.of(make_chunk(), rank=rank, **scores)


def test_a_result_repeats_its_chunk_and_clamps_its_scores() -> None:
    found = result(score=1.2, similarity=-0.1)
    assert (found.score, found.similarity) == (1.0, 0.0)
    assert found.chunk_id == make_chunk().id
    assert found.source_file == make_chunk().metadata.source_file


@pytest.mark.parametrize("name", ["text", "page_title", "url"])
def test_000_results_have_text_title_and_address(name: str) -> None:
    with pytest.raises(ValidationError):
        SearchResult.model_validate(result().model_dump() | {name: ""})


def response(scores: list[float]) -> SearchResponse:
    return SearchResponse(
        query="q",
        results=[result(score=score) for score in scores],
        total_found=len(scores),
        hardware_tier_filter=None,
        module_filter=None,
        book_id="b",
    )


def test_002_results_are_ordered_by_score() -> None:
    response([0.9, 0.5, 0.5, 0.1])
    with pytest.raises(ValidationError, match="ordered by score"):
        response([0.1, 0.9])


# --- 003: confidence -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"average_similarity": 0.9, "max_similarity": 0.8}, "lies between"),
        ({"average_similarity": 0.1, "min_similarity": 0.2, "max_similarity": 0.8}, "lies between"),
        ({"should_answer": True, "confidence_level": "insufficient"}, "never answers"),
        ({"chunk_diversity": 1.1}, "less than or equal to 1"),
        ({"num_chunks": -1}, "greater than or equal to 0"),
    ],
)
def test_003_confidence_metrics_rules(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ConfidenceMetrics(**wrong)


@pytest.mark.parametrize(
    ("level", "label"),
    [("high", "high"), ("medium", "high"), ("low", "low"), ("insufficient", "none")],
)
def test_004_confidence_word_follows_the_level(
    level: ConfidenceLevel, label: ConfidenceLabel
) -> None:
    assert ConfidenceMetrics(confidence_level=level).label == label


def test_confidence_is_the_probability_or_the_mean_similarity() -> None:
    seed = ConfidenceMetrics(average_similarity=0.6, max_similarity=0.7)
    assert seed.confidence == 0.6
    assert seed.model_copy(update={"p_answerable": 0.9}).confidence == 0.9


# --- 000, 001, 003, 004: the retrieval context ---------------------------------------------------


def context(*similarities: float, **changes: Any) -> RetrievalContext:
    results = [result(rank, similarity=s) for rank, s in enumerate(similarities, 1)]
    return RetrievalContext(query="q", results=results, metrics=ConfidenceMetrics(), **changes)


def test_003_average_score_is_the_mean_similarity() -> None:
    assert context(0.2, 0.4).average_score == pytest.approx(0.3)
    assert context().average_score == 0.0
    assert context(0.2, 0.4).total_found == 2


@pytest.mark.parametrize(
    ("similarities", "relevant"), [([], False), ([0.29], False), ([0.3], True), ([0.9], True)]
)
def test_004_has_relevant_results_from_a_score_of_030(
    similarities: list[float], relevant: bool
) -> None:
    assert context(*similarities).has_relevant_results is relevant


def test_003_has_sufficient_context_is_the_gates_verdict() -> None:
    answering = ConfidenceMetrics(confidence_level="low", should_answer=True)
    given = RetrievalContext(query="q", results=[result()], metrics=answering)
    assert given.has_sufficient_context
    assert not context(0.99).has_sufficient_context


def test_000_tool_json() -> None:
    document = json.loads(context(0.8, 0.4).tool_json([3, 4]))
    assert (document["query"], document["total_results"]) == ("q", 2)
    first = document["results"][0]
    assert first.keys() >= {
        "chunk_text", "page_title", "section_heading", "source_url", "similarity_score", "rank"
    }  # fmt: skip
    assert [entry["n"] for entry in document["results"]] == [3, 4]
    with pytest.raises(ValueError, match="longer"):
        context(0.8, 0.4).tool_json([1])


def test_001_formats() -> None:
    found = context(0.5)
    url = found.results[0].url
    assert found.format_for_agent().startswith(f"[1] Source: {url}\n    Score: 0.50\n    Content: ")
    assert found.format_sources_footer() == f"\n---\n**Sources:**\n[1] {url} (score: 0.50)"
    assert context().format_for_agent() == "No relevant content found in the book."
    assert context().format_sources_footer() == ""


# --- 000, 001, 003: conversations ----------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "robot", "content": "x"},
        {"role": "user", "content": "  "},
        {"role": "user", "content": "x", "tool_calls": []},
        {"role": "tool", "content": "x", "tool_calls": []},
        {"role": "assistant", "content": "x", "tool_call_id": "1"},
    ],
)
def test_001_message_rules(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Message(**wrong)


@pytest.mark.parametrize(
    "right",
    [
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "{}", "tool_call_id": "1", "name": "retrieve_documentation"},
        {"role": "system", "content": "rules"},
    ],
)
def test_001_messages_that_are_allowed(right: dict[str, Any]) -> None:
    assert Message(**right).role == right["role"]


def test_001_messages_do_not_change() -> None:
    message = Message(role="user", content="x")
    with pytest.raises(ValidationError, match="frozen"):
        message.content = "y"


def messages(*roles: Any) -> list[Message]:
    return [Message(role=role, content="x") for role in roles]


def test_003_roles_alternate() -> None:
    Conversation(id="c", messages=messages("user", "assistant", "user"))
    with pytest.raises(ValidationError, match="alternate"):
        Conversation(id="c", messages=messages("user", "user"))
    with pytest.raises(ValidationError, match="only user and assistant"):
        Conversation(id="c", messages=messages("system", "user"))


def test_003_at_most_fifty_messages_and_two_hundred_characters() -> None:
    with pytest.raises(ValidationError):
        Conversation(id="c", messages=messages(*["user", "assistant"] * 26))
    with pytest.raises(ValidationError):
        Conversation(id="c", topic_summary="x" * 201)


def answer(**changes: Any) -> AgentResponse:
    fields: dict[str, Any] = {"content": "An answer.", "kind": "answer"}
    return AgentResponse(**(fields | changes))


def cited(section: str) -> Citation:
    return Citation.of(result().model_copy(update={"section_title": section}), 1)


def test_000_an_exchange_counts_a_turn_and_keeps_the_last_fifty_messages() -> None:
    conversation = Conversation(id="c")
    for turn in range(30):
        conversation = conversation.with_exchange(f"Question {turn}?", answer(model="m"))
    assert conversation.turn_count == 30
    assert len(conversation.messages) == MAX_MESSAGES
    assert conversation.messages[0].content == "Question 5?"
    assert conversation.model == "m"
    Conversation.model_validate(conversation.model_dump())


def test_003_topics_are_summed_up_from_five_exchanges_on() -> None:
    conversation = Conversation(id="c")
    for turn in range(1, 40):
        section = f"Section {turn} with a rather long name"
        conversation = conversation.with_exchange("Why?", answer(citations=[cited(section)]))
        assert bool(conversation.topic_summary) == (turn >= 5)
        assert len(conversation.topic_summary) <= 200
    assert "Section 39" in conversation.topic_summary


def test_001_messages_for_the_model() -> None:
    conversation = Conversation(id="c").with_exchange("Why?", answer())
    assert conversation.to_openai_messages() == [
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "An answer."},
    ]


def test_000_the_retrieval_log() -> None:
    entry = ToolCall.of(context(0.2, 0.4))
    assert (entry.tool_name, entry.query, entry.results_count) == ("retrieve_documentation", "q", 2)
    assert entry.avg_similarity == pytest.approx(0.3)
    kept = Conversation(id="c").with_exchange("Why?", answer(retrievals=[entry]))
    assert kept.retrieval_history == [entry]


# --- 001, 003, 004: answers ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"content": ""},
        {"tokens_used": -1},
        {"retrieval_count": -1},
        {"kind": "refusal"},
        {"refused_by": "gate"},
        {"kind": "chat", "refused_by": "model"},
        {
            "kind": "refusal",
            "refused_by": "gate",
            "metrics": ConfidenceMetrics(confidence_level="high", should_answer=True),
        },
        {"citations": [cited("A"), cited("B")]},
    ],
)
def test_001_003_agent_response_rules(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        answer(**wrong)


@pytest.mark.parametrize(
    ("changes", "answers"),
    [
        ({}, True),
        ({"kind": "chat"}, True),
        ({"kind": "refusal", "refused_by": "verification"}, False),
    ],
)
def test_003_should_answer_is_false_for_refusals_only(
    changes: dict[str, Any], answers: bool
) -> None:
    assert answer(**changes).should_answer is answers


def test_003_response_confidence_is_that_of_its_metrics() -> None:
    metrics = ConfidenceMetrics(confidence_level="low", should_answer=True, p_answerable=0.4)
    given = answer(metrics=metrics)
    assert (given.confidence, given.confidence_level) == (0.4, "low")
    assert given.confidence_label == "low"


def test_003_a_citation_shows_at_most_500_characters() -> None:
    long = SearchResult.of(make_chunk("word " * 199 + "end."), score=1, similarity=1, rank=1)
    citation = Citation.of(long, 1)
    assert len(citation.chunk_text) == 500
    with pytest.raises(ValidationError):
        Citation.model_validate(citation.model_dump() | {"chunk_text": "x" * 501})


@pytest.mark.parametrize(
    ("declared", "section", "label", "chapter"),
    [
        (True, "Topics", "Ch. 1 · Topics", "Chapter 1: ROS 2"),
        (False, "Topics", "ROS 2 · Topics", "ROS 2"),
        (False, "ROS 2", "ROS 2", "ROS 2"),
    ],
)
def test_only_a_declared_chapter_number_is_shown(
    declared: bool, section: str, label: str, chapter: str
) -> None:
    chunk = make_chunk(chapter_declared=declared, section_title=section)
    citation = Citation.of(SearchResult.of(chunk, score=1, similarity=1, rank=1), 1)
    assert (citation.label, citation.chapter_name) == (label, chapter)


@pytest.mark.parametrize(
    "wrong",
    [
        {"system_prompt": ""},
        {"system_prompt": "  "},
        {"temperature": -0.1},
        {"temperature": 1.1},
        {"max_tokens": 0},
        {"top_k": 0},
        {"top_k": 101},
        {"score_threshold": 1.1},
        {"model": ""},
    ],
)
def test_000_004_agent_config_rules(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AgentConfig.model_validate({"system_prompt": "Rules."} | wrong)


def test_agent_config_defaults() -> None:
    config = AgentConfig(system_prompt="Rules.")
    assert (config.model, config.temperature, config.max_tokens) == ("gpt-4o-mini", 0.0, None)
    assert (config.top_k, config.score_threshold, config.min_relevance_score) == (5, 0.0, 0.3)
    assert config.max_turns == 50


# --- 002: ingestion ------------------------------------------------------------------------------


def record(file: str, file_hash: str, *ids: str) -> IngestionRecord:
    return IngestionRecord(
        source_file=file, file_hash=file_hash, chunk_ids=list(ids),
        book_id="b", module="main", chapter=1, lesson=1,
    )  # fmt: skip


def state(*records: IngestionRecord) -> IngestionState:
    return IngestionState(
        book_id="b", collection_name="c", records={r.source_file: r for r in records}
    )


def test_002_changed_files() -> None:
    known = state(record("a", "1"), record("b", "2"), record("c", "3"))
    assert known.changed_files({"a": "1", "b": "9", "d": "4"}) == (["d"], ["b"], ["c"])


def test_002_total_chunks_counts_distinct_points() -> None:
    known = state(record("a", "1", "x", "y"), record("b", "2", "y", "z"))
    assert known.total_chunks == 3
    assert [r.chunk_count for r in known.records.values()] == [2, 2]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["a"], ["x"]),
        (["b"], ["z"]),
        (["a", "b"], ["x", "y", "z"]),
        (["unknown"], []),
    ],
)
def test_002_chunks_to_delete_spare_what_another_file_holds(
    files: list[str], expected: list[str]
) -> None:
    known = state(record("a", "1", "x", "y"), record("b", "2", "y", "z"))
    assert known.chunks_only_in(files) == expected


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"status": "completed"}, "time of completion"),
        ({"status": "running", "completed_at": now()}, "no time of completion"),
        ({"status": "queued", "completed_at": now()}, "no time of completion"),
        (
            {"status": "completed", "completed_at": now(), "files_discovered": 2},
            "are the discovered ones",
        ),
        ({"chunks_created": -1}, "greater than or equal to 0"),
        ({"chunks_deleted": -1}, "greater than or equal to 0"),
        ({"mode": "sometimes"}, "Input should be"),
        ({"status": "paused"}, "Input should be"),
        ({"job_id": 0}, "greater than or equal to 1"),
    ],
)
def test_002_ingestion_job_rules(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        IngestionJob.model_validate({"job_id": 1, "book_id": "b"} | wrong)


def test_002_processed_skipped_and_failed_are_the_discovered() -> None:
    job = IngestionJob(
        job_id=1, book_id="b", status="completed", completed_at=now(),
        files_discovered=6, files_processed=3, files_skipped=2, files_failed=1,
    )  # fmt: skip
    assert job.status == "completed"
