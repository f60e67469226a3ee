"""How well a course answers a file of questions: reading it, asking each one, the figures."""

import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, quantiles
from typing import Any, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from rag.errors import EvaluationError
from rag.retrieval import Retriever
from rag.types import AgentResponse, ConfidenceMetrics, Message, SearchFilters, SearchResult

RANKED_PASSAGES = 20
HANDED_ON = 5
HIT_DEPTHS = (1, 3, 5, 10)
RELIABILITY_BINS = 10

Answer = Callable[[str, Sequence[Message]], Awaitable[AgentResponse]]


class EvaluationQuestion(BaseModel):
    """One line of a questions file; fields that it does not know are repeated in the results."""

    model_config = ConfigDict(extra="allow")

    question: str
    id: str | int = ""
    answerable: bool | None = None
    gold: list[str] = Field(default_factory=list)
    """Files of the course (or passage ids, where a passage is a document) that hold the answer."""
    gold_file: str | None = None
    history: list[Message] | None = None
    answers: list[str] | None = None

    @field_validator("question")
    @classmethod
    def _not_blank(cls, question: str) -> str:
        if not question.strip():
            raise ValueError("the question is blank")
        return question

    @property
    def gold_files(self) -> set[str]:
        return {*self.gold, *([self.gold_file] if self.gold_file else [])}


def read_questions(path: Path) -> list[EvaluationQuestion]:
    """The questions of a JSONL file, or one sentence about the first line that is wrong."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise EvaluationError(f"{path} is not a UTF-8 text file.") from None
    except OSError as error:
        raise EvaluationError(f"{path} cannot be read: {error.strerror}.") from None
    questions = [
        read_question(line, f"{path.name}, line {number}")
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not questions:
        raise EvaluationError(f"{path.name} holds no questions.")
    return questions


def read_question(line: str, place: str) -> EvaluationQuestion:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise EvaluationError(f"{place}: this is not valid JSON ({error}).") from None
    if not isinstance(fields, dict):
        raise EvaluationError(f"{place}: a question is a JSON object.")
    try:
        return EvaluationQuestion.model_validate(cast("dict[str, Any]", fields))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "the question"
        message = first["msg"].removeprefix("Value error, ")
        raise EvaluationError(f"{place}: {name}: {message}.") from None


# --- Asking ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of one question."""

    asked: EvaluationQuestion
    ranked: list[SearchResult]
    """As ranked for the agent, before their surroundings are added."""
    metrics: ConfidenceMetrics
    retrieval_ms: float
    response: AgentResponse | None = None

    @property
    def handed_on(self) -> list[SearchResult]:
        return self.ranked[:HANDED_ON]

    @property
    def first_hit(self) -> int | None:
        """The place of the first right file among the distinct files, from 1."""
        files = list(dict.fromkeys(result.source_file for result in self.ranked))
        places = [n for n, file in enumerate(files, 1) if file in self.asked.gold_files]
        return places[0] if places else None

    @property
    def handed_hit(self) -> bool:
        return any(result.source_file in self.asked.gold_files for result in self.handed_on)

    @property
    def recall(self) -> float:
        """The share of the right files (or passages) among those handed on."""
        found = {result.source_file for result in self.handed_on} & self.asked.gold_files
        return len(found) / len(self.asked.gold_files)

    @property
    def quotes_answer(self) -> bool:
        """Whether one of the answers stands word for word in a passage handed on."""
        passages = [result.text.lower() for result in self.handed_on]
        answers = [answer.lower() for answer in self.asked.answers or []]
        return any(answer in passage for answer in answers for passage in passages)

    def as_line(self) -> dict[str, Any]:
        """The question's own fields, what was retrieved and the gate's verdict."""
        line = self.asked.model_dump(mode="json", exclude_unset=True)
        kept = {"chunk_id", "source_file", "section_title", "score", "similarity"}
        line |= {
            "retrieved": [result.model_dump(include=kept) for result in self.ranked],
            "p_answerable": self.metrics.p_answerable,
            "confidence_level": self.metrics.confidence_level,
            "should_answer": self.metrics.should_answer,
            "retrieval_ms": round(self.retrieval_ms, 3),
        }
        if self.response is not None:
            line |= {
                "answer": self.response.content,
                "kind": self.response.kind,
                "citations": [c.model_dump(mode="json") for c in self.response.citations],
                "total_ms": round(self.response.total_time_ms, 3),
            }
        return line


async def evaluate(
    retriever: Retriever,
    filters: SearchFilters,
    questions: Iterable[EvaluationQuestion],
    answer: Answer | None = None,
) -> AsyncIterator[Outcome]:
    """Each question's outcome, one after the other, so that its time is its own."""
    for asked in questions:
        history = asked.history or []
        ranking = await retriever.rank(asked.question, filters, history)
        response = await answer(asked.question, history) if answer else None
        yield Outcome(
            asked=asked,
            ranked=await retriever.results(ranking, RANKED_PASSAGES),
            metrics=ranking.metrics,
            retrieval_ms=ranking.elapsed_ms,
            response=response,
        )


# --- Figures -----------------------------------------------------------------------------------


class Rate(NamedTuple):
    """A share of cases with its 95 % interval (Wilson)."""

    share: float
    low: float
    high: float
    cases: int

    @classmethod
    def of(cls, hits: Sequence[bool]) -> "Rate | None":
        cases = len(hits)
        if not cases:
            return None
        share, z = sum(hits) / cases, 1.96
        centre = (share + z * z / (2 * cases)) / (1 + z * z / cases)
        margin = z * math.sqrt(share * (1 - share) / cases + (z / (2 * cases)) ** 2)
        margin /= 1 + z * z / cases
        return cls(share, max(0.0, centre - margin), min(1.0, centre + margin), cases)


class Bin(NamedTuple):
    """Questions whose P(answerable) was about the same: what was promised, what was true."""

    predicted: float
    observed: float
    cases: int


class Summary(BaseModel):
    """The figures of a whole questions file; None where the file does not say enough."""

    questions: int
    with_gold: int
    hit_at: dict[int, Rate | None]
    """By distinct files."""
    mrr: float | None
    hit_handed_on: Rate | None
    recall_handed_on: float | None
    answer_quoted: Rate | None
    answered: Rate | None
    refused: Rate | None
    auroc: float | None
    balanced_accuracy: float | None
    calibration_error: float | None
    reliability: list[Bin]
    latency_ms: dict[str, float]


def summarise(outcomes: Sequence[Outcome]) -> Summary:
    golden = [o for o in outcomes if o.asked.gold_files]
    places = [o.first_hit for o in golden]
    answerable = [o for o in outcomes if o.asked.answerable is True]
    unanswerable = [o for o in outcomes if o.asked.answerable is False]
    answered = Rate.of([o.metrics.should_answer for o in answerable])
    refused = Rate.of([not o.metrics.should_answer for o in unanswerable])
    judged = [
        (outcome.metrics.confidence, outcome.asked.answerable is True)
        for outcome in [*answerable, *unanswerable]
    ]
    curve = reliability(judged)
    return Summary(
        questions=len(outcomes),
        with_gold=len(golden),
        hit_at={depth: Rate.of([within(p, depth) for p in places]) for depth in HIT_DEPTHS},
        mrr=mean([1 / p if p else 0.0 for p in places]),
        hit_handed_on=Rate.of([o.handed_hit for o in golden]),
        recall_handed_on=mean([o.recall for o in golden]),
        answer_quoted=Rate.of([o.quotes_answer for o in answerable if o.asked.answers]),
        answered=answered,
        refused=refused,
        auroc=auroc([p for p, yes in judged if yes], [p for p, yes in judged if not yes]),
        balanced_accuracy=(answered.share + refused.share) / 2 if answered and refused else None,
        calibration_error=calibration_error(curve) if unanswerable and answerable else None,
        reliability=curve,
        latency_ms=percentiles([o.retrieval_ms for o in outcomes]),
    )


def within(place: int | None, depth: int) -> bool:
    return place is not None and place <= depth


def mean(figures: Sequence[float]) -> float | None:
    return fmean(figures) if figures else None


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float | None:
    """How often an answerable question scores above an unanswerable one; a tie is half a win."""
    if not positive or not negative:
        return None
    ordered = sorted([*((p, True) for p in positive), *((n, False) for n in negative)])
    wins, below, i = 0.0, 0, 0
    while i < len(ordered):
        j = i
        while j < len(ordered) and ordered[j][0] == ordered[i][0]:
            j += 1
        tied_positive = sum(yes for _, yes in ordered[i:j])
        tied_negative = j - i - tied_positive
        wins += tied_positive * (below + tied_negative / 2)
        below += tied_negative
        i = j
    return wins / (len(positive) * len(negative))


def reliability(judged: Sequence[tuple[float, bool]], bins: int = RELIABILITY_BINS) -> list[Bin]:
    """Questions grouped by what the gate promised; empty groups are left out."""
    groups: dict[int, list[tuple[float, bool]]] = {}
    for probability, answerable in judged:
        number = min(int(probability * bins), bins - 1)
        groups.setdefault(number, []).append((probability, answerable))
    return [
        Bin(fmean(p for p, _ in group), fmean(yes for _, yes in group), len(group))
        for _, group in sorted(groups.items())
    ]


def calibration_error(curve: Sequence[Bin]) -> float:
    """The mean distance between promised and true, by number of questions."""
    total = sum(group.cases for group in curve)
    return sum(abs(b.predicted - b.observed) * b.cases for b in curve) / total if total else 0.0


def percentiles(figures: Sequence[float]) -> dict[str, float]:
    if not figures:
        return {}
    cuts = quantiles(figures, n=100, method="inclusive") if len(figures) > 1 else [*figures] * 99
    return {f"p{n}": round(cuts[n - 1], 3) for n in (50, 95, 99)}
