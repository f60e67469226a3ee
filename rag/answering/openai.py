"""Answers written by a language model, through OpenAI's API or any compatible server."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

import openai
from openai import AsyncOpenAI, AsyncStream
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import ChoiceDelta, ChoiceDeltaToolCall

from rag.answering import Assignment
from rag.answering.budget import (
    RESERVED_FOR_ANSWER,
    estimated_tokens,
    fitting_history,
    fitting_passages,
)
from rag.citations import without_markers
from rag.errors import AnsweringError
from rag.prompts import RETRIEVE_TOOL, SUMMARY_LINE, TOOL_NAME, WITH_PASSAGES
from rag.types import AgentConfig

FIRST_CALL_ID = "call_first_search"
WHOLE_ENDINGS = ("stop", "tool_calls", "function_call")
"""Any other ending (length, content_filter, none at all) leaves an answer that is not whole."""


@dataclass
class RequestedCall:
    """A tool call as it arrives in pieces."""

    id: str = ""
    name: str = ""
    arguments: str = ""

    def add(self, piece: ChoiceDeltaToolCall) -> None:
        self.id = piece.id or self.id
        if piece.function is not None:
            self.name += piece.function.name or ""
            self.arguments += piece.function.arguments or ""

    def as_message(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


class OpenAIAnswerer:
    """One streamed model call a question; the model may search again a bounded number of times."""

    verbatim = False

    def __init__(self, client: AsyncOpenAI, config: AgentConfig) -> None:
        self._client = client
        self._config = config
        self._sends_temperature = True

    @property
    def model(self) -> str:
        return self._config.model

    async def write(self, assignment: Assignment) -> AsyncIterator[str]:
        messages = first_messages(assignment, self._config)
        wrote = False
        for searches_left in range(self._config.max_tool_calls, -1, -1):
            calls: dict[int, RequestedCall] = {}
            said = ""
            async for delta in self._stream(messages, assignment, searches_left > 0):
                collect(calls, delta)
                if delta.content:
                    yield "\n\n" + delta.content if wrote and not said else delta.content
                    said += delta.content
            wrote = wrote or bool(said.strip())
            if not calls:
                break
            messages += await results_of(said, list(calls.values()), assignment)
        if not wrote:
            raise AnsweringError(f"The model {self.model} returned an empty answer.")

    async def _stream(
        self, messages: list[dict[str, Any]], assignment: Assignment, may_search: bool
    ) -> AsyncIterator[ChoiceDelta]:
        ended: str | None = None
        try:
            async with await self._request(messages, may_search) as stream:
                async for chunk in stream:
                    if chunk.usage is not None:
                        assignment.tokens_used += chunk.usage.total_tokens
                    if chunk.choices:
                        ended = chunk.choices[0].finish_reason or ended
                        yield chunk.choices[0].delta
        except openai.OpenAIError as error:
            raise AnsweringError(explained(error, self.model)) from error
        except ValueError as error:  # the SDK passes on what json or unicode decoding raises
            raise AnsweringError("The model's provider sent a reply that is not JSON.") from error
        if ended not in WHOLE_ENDINGS:
            raise AnsweringError(f"The model's answer was cut off ({ended or 'no ending'}).")

    async def _request(
        self, messages: list[dict[str, Any]], may_search: bool
    ) -> AsyncStream[ChatCompletionChunk]:
        options: dict[str, Any] = {"tools": [RETRIEVE_TOOL]} if may_search else {}
        if self._config.max_tokens is not None:
            options["max_completion_tokens"] = self._config.max_tokens
        if self._sends_temperature:
            options["temperature"] = self._config.temperature
        try:
            return await self._create(messages, options)
        except openai.BadRequestError as error:
            if "temperature" not in options or "temperature" not in str(error):
                raise
            # Some models accept only their own temperature: from now on they get no other.
            self._sends_temperature = False
            del options["temperature"]
            return await self._create(messages, options)

    async def _create(
        self, messages: list[dict[str, Any]], options: dict[str, Any]
    ) -> AsyncStream[ChatCompletionChunk]:
        return await self._client.chat.completions.create(
            model=self.model,
            messages=cast(Any, messages),
            stream=True,
            stream_options={"include_usage": True},
            **options,
        )


def first_messages(assignment: Assignment, config: AgentConfig) -> list[dict[str, Any]]:
    """Rules, conversation, question, and the first search as a tool call that is already done."""
    rules = {"role": "system", "content": rules_of(assignment, config)}
    budget = config.context_tokens - RESERVED_FOR_ANSWER - estimated_tokens(rules["content"])
    context = fitting_passages(assignment.context, budget)
    query = json.dumps({"query": context.query}, ensure_ascii=False)
    call = RequestedCall(FIRST_CALL_ID, TOOL_NAME, query)
    found = context.tool_json(range(1, len(context.results) + 1))
    budget -= estimated_tokens(assignment.question) + estimated_tokens(found)
    recent = fitting_history(assignment.history[-2 * config.max_turns :], budget)
    # The passages are numbered anew for each question, so earlier numbers would mislead.
    before = [rules, *({"role": m.role, "content": without_markers(m.content)} for m in recent)]
    if config.max_tool_calls == 0:  # a model without tools reads the passages with the question
        asked = WITH_PASSAGES.format(question=assignment.question, passages=found)
        return [*before, {"role": "user", "content": asked}]
    return [
        *before,
        {"role": "user", "content": assignment.question},
        {"role": "assistant", "content": None, "tool_calls": [call.as_message()]},
        tool_message(FIRST_CALL_ID, found),
    ]


def rules_of(assignment: Assignment, config: AgentConfig) -> str:
    if not assignment.topic_summary:
        return config.system_prompt
    summary = SUMMARY_LINE.format(summary=assignment.topic_summary)
    return f"{config.system_prompt}\n{summary}\n"


def tool_message(call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def collect(calls: dict[int, RequestedCall], delta: ChoiceDelta) -> None:
    for piece in delta.tool_calls or []:
        calls.setdefault(piece.index, RequestedCall()).add(piece)


async def results_of(
    said: str, calls: list[RequestedCall], assignment: Assignment
) -> list[dict[str, Any]]:
    """The model's own request and the results it asked for, as the next messages."""
    requested = {
        "role": "assistant",
        "content": said or None,
        "tool_calls": [call.as_message() for call in calls],
    }
    answers = [tool_message(call.id, await result_of(call, assignment)) for call in calls]
    return [requested, *answers]


async def result_of(call: RequestedCall, assignment: Assignment) -> str:
    if call.name != TOOL_NAME:
        return json.dumps({"error": f"There is no tool {call.name}.", "query": ""})
    try:
        arguments = json.loads(call.arguments or "{}")
    except json.JSONDecodeError:
        arguments = None
    if not isinstance(arguments, dict):
        return json.dumps({"error": "The arguments are not a JSON object.", "query": ""})
    return await assignment.retrieve(cast(dict[str, Any], arguments))


def explained(error: openai.OpenAIError, model: str) -> str:
    """What went wrong at the provider, in one sentence for the operator."""
    if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
        return "The model's provider rejected OPENAI_API_KEY."
    if isinstance(error, openai.NotFoundError):
        return f"The model's provider does not know the model {model}."
    if isinstance(error, openai.RateLimitError):
        return "The model's provider is over its rate limit or quota."
    if isinstance(error, openai.APITimeoutError):
        return "The model's provider did not answer in time."
    if isinstance(error, openai.APIConnectionError):
        return "The model's provider cannot be reached."
    return f"The model's provider failed ({type(error).__name__})."
