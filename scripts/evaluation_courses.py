"""The courses that quality is measured on: their questions, and each one opened for searching."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rag.embedding import Embedder
from rag.evaluation import EvaluationQuestion, read_questions
from rag.index.edge import EdgeIndex
from rag.ingestion.course import load_course
from rag.ingestion.pipeline import Ingestion
from rag.profile import CourseProfile, build_profile
from rag.types import IngestionJob, SearchFilters

PER_KIND = 144
"""As many questions of each other course: the number that most courses have."""


@dataclass(frozen=True)
class Course:
    """A folder of material and questions that it answers."""

    name: str
    folder: Path
    questions: list[EvaluationQuestion]

    @property
    def filters(self) -> SearchFilters:
        return SearchFilters(book_id=self.name)


@dataclass(frozen=True)
class OpenCourse:
    """A course in its index, measured."""

    course: Course
    index: EdgeIndex
    profile: CourseProfile


def courses_in(data: Path) -> list[Course]:
    """The courses of the table: of the textbook the natural questions, of the others all."""
    rust = read_questions(data / "rust_book" / "questions.jsonl")
    natural = [q for q in rust if q.answerable and (q.model_extra or {}).get("natural")]
    courses = [Course("rust_book", data / "rust_book" / "corpus", natural)]
    for name in ("iot", "webdev"):
        folder = data / "ms_for_beginners" / name
        questions = [q for q in read_questions(folder / "questions.jsonl") if q.answerable]
        courses.append(Course(name, folder / "corpus", questions))
    return courses


def articles_in(data: Path, answerable: bool, number: int = 500) -> Course:
    """The articles with questions spread evenly over them: the file follows their order."""
    asked = read_questions(data / "squad2" / "questions.jsonl")
    asked = [question for question in asked if question.answerable is answerable]
    step = max(len(asked) // number, 1)
    return Course("squad2", data / "squad2" / "corpus", asked[::step][:number])


def conversations_in(data: Path, name: str) -> Course:
    folder = data / "mtrag" / name
    asked = [q for q in read_questions(folder / "questions.jsonl") if q.gold]
    return Course(name, folder, asked)


def off_topic(data: Path) -> list[EvaluationQuestion]:
    return read_questions(data / "squad2" / "questions_offtopic.jsonl")


def foreign(course: Course, courses: Sequence[Course]) -> list[EvaluationQuestion]:
    """Questions of the other courses, which this one is not expected to answer."""
    return [
        question.model_copy(update={"answerable": False, "gold": []})
        for other in courses
        if other.name != course.name
        for question in other.questions[:PER_KIND]
    ]


@asynccontextmanager
async def opened(course: Course, embedder: Embedder, work: Path) -> AsyncGenerator[OpenCourse]:
    """The course, ingested into the working folder if it is not there yet."""
    index = EdgeIndex.open(work / course.name, f"bench_{embedder.model}", embedder.dimension)
    try:
        job = IngestionJob(job_id=1, book_id=course.name)
        material = load_course(course.folder, course.name)
        await Ingestion(index, index, embedder).run(
            material, job, "incremental", lambda job, progress: None
        )
        profile = await build_profile(index, embedder, course.name)
        if profile is None:
            raise ValueError(f"{course.folder} holds nothing to ask about")
        summary = next(c for c in await index.courses() if c.book_id == course.name)
        measured = profile.model_dump(mode="json")
        await index.save(summary.model_copy(update={"profile": measured}))
        yield OpenCourse(course, index, profile)
    finally:
        index.close()


def mixed_weights(kinds: NDArray[np.int_]) -> NDArray[np.float64]:
    """Half answerable (0), a quarter off-topic (1), a quarter other courses (2), by weight."""
    counts = np.maximum(np.bincount(kinds, minlength=3), 1)
    return (np.array([0.5, 0.25, 0.25]) / counts)[kinds]


def weighted_calibration_error(
    probabilities: NDArray[np.float64], kinds: NDArray[np.int_], bins: int = 10
) -> float:
    """The distance between promised and true over bins of the promise, in the mix above."""
    weights = mixed_weights(kinds)
    number = np.minimum((probabilities * bins).astype(int), bins - 1)
    gaps = weights * (probabilities - (kinds == 0))
    return float(sum(abs(gaps[number == n].sum()) for n in range(bins)))


def written(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
