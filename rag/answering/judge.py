"""A language model's second opinion on an answer's sentences, in one call."""

import json
import re
from collections.abc import Sequence
from typing import cast

import openai
from openai import AsyncOpenAI

from rag.answering.openai import explained
from rag.checking import Checked
from rag.errors import AnsweringError
from rag.prompts import JUDGE_PROMPT


class OpenAIJudge:
    """Says which sentences their passages support; what it does not name is not supported."""

    def __init__(self, client: AsyncOpenAI, model: str) -> None:
        self._client = client
        self._model = model

    async def __call__(self, sentences: Sequence[Checked]) -> tuple[list[bool], int]:
        """One verdict a sentence, and the tokens it took."""
        try:
            completion = await self._client.chat.completions.create(
                model=self._model,
                messages=[
                    {"role": "system", "content": JUDGE_PROMPT},
                    {"role": "user", "content": cases(sentences)},
                ],
            )
        except openai.OpenAIError as error:
            raise AnsweringError(explained(error, self._model)) from error
        except ValueError as error:
            raise AnsweringError("The model's provider sent a reply that is not JSON.") from error
        reply = completion.choices[0].message.content if completion.choices else None
        named = supported_numbers(reply or "")
        tokens = completion.usage.total_tokens if completion.usage else 0
        return [n in named for n in range(1, len(sentences) + 1)], tokens


def cases(sentences: Sequence[Checked]) -> str:
    """The statements with their passages, as data."""
    numbered = [
        {"n": n, "statement": s.claim.text, "passage": s.evidence.text}
        for n, s in enumerate(sentences, 1)
    ]
    return json.dumps({"statements": numbered}, ensure_ascii=False, indent=1)


def supported_numbers(reply: str) -> set[int]:
    """The numbers a reply names; nonsense names none."""
    found = re.search(r"\{.*\}", reply, re.DOTALL)
    try:
        document: object = json.loads(found[0]) if found else None
    except json.JSONDecodeError:
        return set()
    if not isinstance(document, dict):
        return set()
    named = cast(dict[str, object], document).get("supported")
    numbers = cast(list[object], named) if isinstance(named, list) else []
    return {n for n in numbers if isinstance(n, int) and not isinstance(n, bool)}
