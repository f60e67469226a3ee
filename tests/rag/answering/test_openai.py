"""A model over the wire: what it is sent, what it may do wrong, and what comes of it."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai import AsyncOpenAI

from rag.answering import Assignment
from rag.answering.openai import OpenAIAnswerer
from rag.errors import AnsweringError
from rag.prompts import SYSTEM_PROMPT, TOOL_NAME
from rag.types import AgentConfig, Message
from tests.model_server import (
    KEY,
    MODEL,
    ModelServer,
    Reply,
    asks,
    breaks_after,
    fails,
    model_server,
    says,
    stalls_after,
)
from tests.passages import Searches, make_assignment

PATIENCE_SECONDS = 0.3


@asynccontextmanager
async def answering(
    *replies: Reply, accepts_temperature: bool = True, retries: int = 0, **config: Any
) -> AsyncGenerator[tuple[OpenAIAnswerer, ModelServer]]:
    """An answerer whose provider gives these replies."""
    settings = AgentConfig(model=MODEL, system_prompt=SYSTEM_PROMPT, **config)
    async with model_server(*replies, accepts_temperature=accepts_temperature) as server:
        client = AsyncOpenAI(
            api_key=KEY, base_url=server.url, timeout=PATIENCE_SECONDS, max_retries=retries
        )
        async with client:
            yield OpenAIAnswerer(client, settings), server


async def written(answerer: OpenAIAnswerer, assignment: Assignment) -> str:
    return "".join([piece async for piece in answerer.write(assignment)])


# --- What the model is sent --------------------------------------------------------------------


async def test_the_first_search_is_already_in_the_messages() -> None:
    async with answering(says("Yes [1].")) as (answerer, server):
        await written(answerer, make_assignment(question="What is a topic?"))
    (request,) = server.requests
    system, user, called, result = request["messages"]
    assert (system["role"], system["content"]) == ("system", SYSTEM_PROMPT)
    assert (user["role"], user["content"]) == ("user", "What is a topic?")
    (call,) = called["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"query": "What is a topic?"}
    assert result["tool_call_id"] == call["id"]
    found = json.loads(result["content"])
    assert [passage["n"] for passage in found["results"]] == [1, 2]
    assert found["total_results"] == 2
    assert request["model"] == MODEL
    assert request["temperature"] == 0.0
    assert [tool["function"]["name"] for tool in request["tools"]] == [TOOL_NAME]


async def test_a_model_without_tools_reads_the_passages_with_the_question() -> None:
    async with answering(says("Yes [1]."), max_tool_calls=0) as (answerer, server):
        await written(answerer, make_assignment(question="What is a topic?"))
    (request,) = server.requests
    system, user = request["messages"]
    assert system["content"] == SYSTEM_PROMPT
    assert user["content"].startswith("<passages>\n{")
    assert user["content"].endswith("</passages>\n\nQuestion: What is a topic?")
    assert "tools" not in request


async def test_earlier_turns_are_sent_without_their_numbers() -> None:
    history = [
        Message(role="user", content="What is a node?"),
        Message(role="assistant", content="It does one job [1]."),
    ]
    async with answering(says("Yes [1].")) as (answerer, server):
        await written(answerer, make_assignment(history=history))
    spoken = [m["content"] for m in server.requests[0]["messages"][1:3]]
    assert spoken == ["What is a node?", "It does one job."]


async def test_only_the_last_turns_are_sent() -> None:
    history = [
        Message(role=role, content=f"{role} {turn}")
        for turn in range(9)
        for role in ("user", "assistant")
    ]
    async with answering(says("Yes [1]."), max_turns=2) as (answerer, server):
        await written(answerer, make_assignment(history=history))
    spoken = [m["content"] for m in server.requests[0]["messages"][1:5]]
    assert spoken == ["user 7", "assistant 7", "user 8", "assistant 8"]


async def test_a_long_conversation_fits_the_window_and_its_topics_stay() -> None:
    history = [
        Message(role=role, content=f"{role} {turn} " + "word " * 400)
        for turn in range(9)
        for role in ("user", "assistant")
    ]
    assignment = make_assignment(history=history)
    assignment.topic_summary = "Nodes; Quality of Service"
    async with answering(says("Yes [1]."), context_tokens=4_000) as (answerer, server):
        await written(answerer, assignment)
    messages = server.requests[0]["messages"]
    assert messages[0]["content"].startswith(SYSTEM_PROMPT)
    assert "Nodes; Quality of Service" in messages[0]["content"]
    spoken = [m["content"][:11].strip() for m in messages[1:-3]]
    assert spoken == ["user 8 word", "assistant 8"]


async def test_the_longest_answer_can_be_bounded() -> None:
    async with answering(says("Yes [1]."), max_tokens=99) as (answerer, server):
        await written(answerer, make_assignment())
    assert server.requests[0]["max_completion_tokens"] == 99


# --- What it answers ---------------------------------------------------------------------------


async def test_an_answer_is_passed_on_in_pieces_and_its_tokens_counted() -> None:
    assignment = make_assignment()
    async with answering(says("A ", "topic ", "[1].")) as (answerer, _):
        pieces = [piece async for piece in answerer.write(assignment)]
    assert pieces == ["A ", "topic ", "[1]."]
    assert assignment.tokens_used == 42


async def test_the_model_may_search_again() -> None:
    searches = Searches()
    again = asks({"query": "quality of service", "top_k": 3})
    async with answering(again, says("Found [1].")) as (answerer, server):
        assignment = make_assignment(searches=searches)
        assert await written(answerer, assignment) == "Found [1]."
    assert searches.asked == [{"query": "quality of service", "top_k": 3}]
    assert assignment.tokens_used == 84
    assert json.loads(server.requests[1]["messages"][-1]["content"])["total_results"] == 0


async def test_searches_side_by_side_are_all_answered() -> None:
    searches = Searches()
    both = asks({"query": "topics"}, {"query": "services"}, preamble="Let me look.")
    async with answering(both, says("Found [1].")) as (answerer, server):
        text = await written(answerer, make_assignment(searches=searches))
    assert text == "Let me look.\n\nFound [1]."
    assert [asked["query"] for asked in searches.asked] == ["topics", "services"]
    answered = [m["tool_call_id"] for m in server.requests[1]["messages"] if m["role"] == "tool"]
    assert answered[1:] == ["call_0", "call_1"]


async def test_a_model_that_only_searches_is_stopped() -> None:
    searching = [asks({"query": f"topic {n}"}) for n in range(3)]
    searches = Searches()
    async with answering(*searching, says("Enough [1]."), max_tool_calls=2) as (answerer, server):
        # Without the tool on offer, the model that still calls it has said nothing.
        with pytest.raises(AnsweringError, match="empty answer"):
            await written(answerer, make_assignment(searches=searches))
    assert ["tools" in request for request in server.requests] == [True, True, False]


@pytest.mark.parametrize(
    ("request_for", "complaint"),
    [
        (asks('{"query": "to'), "The arguments are not a JSON object."),
        (asks("[1]"), "The arguments are not a JSON object."),
        (asks({"query": "x"}, name="rm_rf"), "There is no tool rm_rf."),
    ],
)
async def test_a_senseless_tool_call_is_answered_with_its_error(
    request_for: Reply, complaint: str
) -> None:
    searches = Searches()
    async with answering(request_for, says("Found [1].")) as (answerer, server):
        assert await written(answerer, make_assignment(searches=searches)) == "Found [1]."
    assert json.loads(server.requests[1]["messages"][-1]["content"])["error"] == complaint
    assert searches.asked == []


async def test_a_model_that_rejects_temperature_is_called_without_it() -> None:
    replies = [says("One [1]."), says("Two [1].")]
    async with answering(*replies, accepts_temperature=False) as (answerer, server):
        assert await written(answerer, make_assignment()) == "One [1]."
        assert await written(answerer, make_assignment()) == "Two [1]."
    # Rejected once, and never tried again.
    assert ["temperature" in request for request in server.requests] == [True, False, False]


# --- What may go wrong -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (fails(401), "The model's provider rejected OPENAI_API_KEY."),
        (fails(403), "The model's provider rejected OPENAI_API_KEY."),
        (fails(404), f"The model's provider does not know the model {MODEL}."),
        (fails(429), "The model's provider is over its rate limit or quota."),
        (fails(400), r"The model's provider failed \(BadRequestError\)."),
        (fails(500), r"The model's provider failed \(InternalServerError\)."),
        (fails(503), r"The model's provider failed \(InternalServerError\)."),
        (stalls_after(), "The model's provider did not answer in time."),
        (stalls_after("A topic is "), "The model's provider did not answer in time."),
        (breaks_after("A topic is "), "The model's provider cannot be reached."),
        (Reply([{"content": "A "}], raw="data: {nonsense\n\n"), "sent a reply that is not JSON."),
        (says(), "returned an empty answer."),
        (says(" \n "), "returned an empty answer."),
        (says("A topic", finish_reason="content_filter"), r"was cut off \(content_filter\)."),
        (says("A topic", finish_reason="length"), r"was cut off \(length\)."),
        (says("A topic", finish_reason=None), r"was cut off \(no ending\)."),
    ],
)
async def test_a_fault_is_one_sentence(reply: Reply, sentence: str) -> None:
    async with answering(reply) as (answerer, _):
        with pytest.raises(AnsweringError, match=sentence):
            await written(answerer, make_assignment())


async def test_what_came_before_a_break_was_passed_on() -> None:
    async with answering(breaks_after("A topic ", "is ")) as (answerer, _):
        writing = answerer.write(make_assignment())
        assert [await anext(writing), await anext(writing)] == ["A topic ", "is "]
        with pytest.raises(AnsweringError):
            await anext(writing)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_passing_fault_is_tried_again(status: int) -> None:
    replies = [fails(status, retry_after="0"), says("Yes [1].")]
    async with answering(*replies, retries=1) as (answerer, server):
        assert await written(answerer, make_assignment()) == "Yes [1]."
    assert len(server.requests) == 2


async def test_nobody_listens() -> None:
    async with answering() as (answerer, server):
        pass
    client = AsyncOpenAI(api_key=KEY, base_url=server.url, timeout=PATIENCE_SECONDS, max_retries=0)
    async with client:
        config = AgentConfig(model=MODEL, system_prompt=SYSTEM_PROMPT)
        with pytest.raises(AnsweringError, match="cannot be reached"):
            await written(OpenAIAnswerer(client, config), make_assignment())
    assert answerer.model == MODEL
