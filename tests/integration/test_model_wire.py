"""The model's wire against a server that other people wrote: streams, tools and faults."""

import json
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from rag.answering import Assignment
from rag.answering.openai import OpenAIAnswerer
from rag.errors import AnsweringError
from rag.prompts import SYSTEM_PROMPT
from rag.types import AgentConfig
from tests.integration.model_stand_in import start_scripted_model
from tests.passages import TOPICS, Searches, make_assignment

pytestmark = pytest.mark.system

QUESTION = "What is a topic?"


def reply(response: dict[str, Any], place: int | None = None, **more: Any) -> dict[str, Any]:
    match: dict[str, Any] = {"userMessage": QUESTION}
    if place is not None:
        match["sequenceIndex"] = place
    return {"match": match, "response": response, "chunkSize": 7, **more}


def search(query: str, call: str) -> dict[str, str]:
    arguments = json.dumps({"query": query})
    return {"name": "retrieve_documentation", "arguments": arguments, "id": call}


async def written(
    folder: Path, *fixtures: dict[str, Any], assignment: Assignment | None = None, retries: int = 0
) -> tuple[str, list[dict[str, Any]]]:
    """What was answered, and every request that it took."""
    async with start_scripted_model(folder, list(fixtures)) as model:
        client = AsyncOpenAI(
            api_key="sk-test", base_url=model.base_url, timeout=5, max_retries=retries
        )
        async with client:
            config = AgentConfig(model="gpt-4o-mini", system_prompt=SYSTEM_PROMPT)
            answerer = OpenAIAnswerer(client, config)
            pieces = [p async for p in answerer.write(assignment or make_assignment())]
            return "".join(pieces), await model.requests()


async def test_an_answer_streams_in_one_call(tmp_path: Path) -> None:
    text, requests = await written(tmp_path, reply({"content": f"{TOPICS} [1]"}))
    assert text == f"{TOPICS} [1]"
    assert len(requests) == 1
    roles = [message["role"] for message in requests[0]["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]


async def test_searches_side_by_side_are_answered(tmp_path: Path) -> None:
    searches = Searches()
    both = {"toolCalls": [search("topics", "call_a"), search("services", "call_b")]}
    text, requests = await written(
        tmp_path,
        reply(both, place=0),
        reply({"content": "Found [1]."}, place=1),
        assignment=make_assignment(searches=searches),
    )
    assert text == "Found [1]."
    assert [asked["query"] for asked in searches.asked] == ["topics", "services"]
    results = [m["tool_call_id"] for m in requests[1]["messages"] if m["role"] == "tool"]
    assert results[1:] == ["call_a", "call_b"]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_passing_fault_is_tried_again(tmp_path: Path, status: int) -> None:
    fault = {"error": {"message": "Later.", "type": "server_error"}, "status": status}
    text, requests = await written(
        tmp_path, reply(fault, place=0), reply({"content": "Yes [1]."}, place=1), retries=1
    )
    assert text == "Yes [1]."
    assert len(requests) == 2


@pytest.mark.parametrize(
    ("fixture", "sentence"),
    [
        (
            reply({"error": {"message": "Too fast.", "type": "rate_limit_error"}, "status": 429}),
            "over its rate limit",
        ),
        (
            reply({"error": {"message": "No.", "type": "server_error"}, "status": 500}),
            "provider failed",
        ),
        (reply({"content": "A topic is " * 9}, truncateAfterChunks=3), "provider|cut off"),
        (reply({"content": "A topic", "finishReason": "content_filter"}), "content_filter"),
        (reply({"content": "A topic", "finishReason": "length"}), "length"),
        (reply({"content": ""}), "empty answer"),
    ],
)
async def test_a_fault_is_one_sentence(
    tmp_path: Path, fixture: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(AnsweringError, match=sentence):
        await written(tmp_path, fixture)
