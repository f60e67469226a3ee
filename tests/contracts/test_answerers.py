"""What everyone who writes an answer must do, whoever writes."""

import re
from collections.abc import AsyncGenerator

import pytest
from openai import AsyncOpenAI

from rag.answering import Answerer
from rag.answering.extractive import ExtractiveAnswerer
from rag.answering.openai import OpenAIAnswerer
from rag.prompts import SYSTEM_PROMPT
from rag.types import AgentConfig
from tests.fakes import WordEmbedder
from tests.model_server import KEY, MODEL, model_server, says
from tests.passages import TOPICS, Searches, make_assignment

MARKER = re.compile(r"\[(\d+)(?:\|[^\]]*)?\]")


@pytest.fixture(params=["extractive", "openai"])
async def answerer(request: pytest.FixtureRequest) -> AsyncGenerator[Answerer]:
    if request.param == "extractive":
        yield ExtractiveAnswerer(WordEmbedder(dimension=64))
        return
    reply = says(TOPICS, ' [1|"a named channel"]')
    async with (
        model_server(reply, reply) as server,
        AsyncOpenAI(api_key=KEY, base_url=server.url, max_retries=0) as client,
    ):
        yield OpenAIAnswerer(client, AgentConfig(model=MODEL, system_prompt=SYSTEM_PROMPT))


async def test_it_has_a_name(answerer: Answerer) -> None:
    assert answerer.model


async def test_it_says_whether_it_only_quotes(answerer: Answerer) -> None:
    assert answerer.verbatim is (answerer.model == "extractive")


async def test_it_writes_what_the_passage_says(answerer: Answerer) -> None:
    text = "".join([piece async for piece in answerer.write(make_assignment())])
    assert TOPICS in text


async def test_every_marker_names_a_passage_it_was_given(answerer: Answerer) -> None:
    assignment = make_assignment()
    text = "".join([piece async for piece in answerer.write(assignment)])
    cited = [int(number) for number in MARKER.findall(text)]
    assert cited
    assert all(1 <= number <= len(assignment.passages) for number in cited)


async def test_it_leaves_the_assignment_as_it_was(answerer: Answerer) -> None:
    searches = Searches()
    assignment = make_assignment(searches=searches)
    before = [passage.chunk_id for passage in assignment.passages]
    _ = [piece async for piece in answerer.write(assignment)]
    assert [passage.chunk_id for passage in assignment.passages] == before
    assert searches.asked == []


async def test_it_holds_nothing_between_questions(answerer: Answerer) -> None:
    first = "".join([piece async for piece in answerer.write(make_assignment())])
    second = "".join([piece async for piece in answerer.write(make_assignment())])
    assert first == second
