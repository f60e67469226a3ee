"""Fits the confidence gate on real courses and writes rag/calibration.json.

    python scripts/calibrate.py ../shared/data

Every course is ingested once into a working folder. Its own questions are answerable; questions
about something else entirely, and the other courses' questions, are not. Each course is also held
out in turn, so that the figures kept beside the weights are those of a course never seen.
"""

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from rag.confidence import clip
from rag.embedding.local import LocalEmbedder
from rag.index.edge import EdgeIndex
from rag.ingestion.course import load_course
from rag.ingestion.pipeline import Ingestion
from rag.profile import build_profile
from rag.retrieval import CANDIDATES, distinct, features_of, fuse
from rag.types import IngestionJob, SearchFilters

NAMES = ["best", "spread", "coverage", "known", "files"]
LIMIT = 6.0
LOW, MEDIUM, HIGH = 0.25, 0.5, 0.8
PER_KIND = 144
TARGET = Path(__file__).resolve().parent.parent / "rag" / "calibration.json"


@dataclass(frozen=True)
class Course:
    """A course to fit on: its folder, and questions that it answers."""

    name: str
    folder: Path
    questions: list[str]


@dataclass(frozen=True)
class Sample:
    """The features of every question asked of one course."""

    course: str
    rows: NDArray[np.float64]
    answerable: NDArray[np.bool_]
    off_topic: NDArray[np.bool_]
    weights: NDArray[np.float64]


def read_questions(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def courses_in(data: Path) -> list[Course]:
    rust = read_questions(data / "rust_book" / "questions.jsonl")
    beginners = data / "ms_for_beginners"
    found = [
        Course(
            "rust_book",
            data / "rust_book" / "corpus",
            [q["question"] for q in rust if q.get("natural") and q["answerable"]],
        )
    ]
    for name in ("iot", "webdev"):
        questions = read_questions(beginners / name / "questions.jsonl")
        asked = [q["question"] for q in questions if q["answerable"]]
        found.append(Course(name, beginners / name / "corpus", asked))
    squad = read_questions(data / "squad2" / "questions.jsonl")
    asked = [q["question"] for q in squad if q["answerable"]]
    # Its questions stand in the order of its articles: a few of each, not all of the first.
    asked = asked[:: max(len(asked) // PER_KIND, 1)]
    return [*found, Course("squad2", data / "squad2" / "corpus", asked)]


async def measure(course: Course, others: Sequence[Course], off: list[str], work: Path) -> Sample:
    embedder = LocalEmbedder.load()
    index = EdgeIndex.open(work, f"calibration_{course.name}", embedder.dimension)
    try:
        await Ingestion(index, index, embedder).run(
            load_course(course.folder, course.name),
            IngestionJob(job_id=1, book_id=course.name),
            "incremental",
            lambda job, progress: None,
        )
        profile = await build_profile(index, embedder, course.name)
        assert profile is not None

        async def features(question: str) -> list[float]:
            vector = await embedder.embed_query(question)
            terms = {question: 1.0}
            filters = SearchFilters(book_id=course.name)
            found = await index.search(vector, terms, filters, CANDIDATES)
            return clip(features_of(distinct(fuse(found)), terms, profile), LIMIT).as_list()

        foreign = [q for other in others for q in other.questions[:PER_KIND]]
        questions = [*course.questions, *off, *foreign]
        rows = np.array([await features(question) for question in questions])
    finally:
        index.close()
    return sample_of(course.name, rows, len(course.questions), len(off))


def sample_of(name: str, rows: NDArray[np.float64], own: int, off: int) -> Sample:
    """Half answerable, a quarter off-topic, a quarter other courses, by weight."""
    kind = np.array([0] * own + [1] * off + [2] * (len(rows) - own - off))
    share = np.array([0.5, 0.25, 0.25])
    counts = np.bincount(kind, minlength=3)
    return Sample(name, rows, kind == 0, kind == 1, (share / counts)[kind])


def fit(samples: Sequence[Sample]) -> LogisticRegression:
    rows = np.concatenate([s.rows for s in samples])
    answerable = np.concatenate([s.answerable for s in samples])
    weights = np.concatenate([s.weights for s in samples])
    model = LogisticRegression(C=1.0, max_iter=1000)
    model.fit(rows, answerable, sample_weight=weights * len(rows) / weights.sum())
    return model


def held_out(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    figures: list[dict[str, Any]] = []
    for sample in samples:
        model = fit([other for other in samples if other is not sample])
        p = model.predict_proba(sample.rows)[:, 1]
        foreign = ~sample.answerable & ~sample.off_topic
        pair = sample.answerable | foreign
        figures.append(
            {
                "course": sample.course,
                "answered": round(float((p[sample.answerable] >= LOW).mean()), 3),
                "off_topic_refused": round(float((p[sample.off_topic] < LOW).mean()), 3),
                "other_courses_auroc": round(
                    float(roc_auc_score(sample.answerable[pair], p[pair])), 3
                ),
                "shown_as_medium_or_high": round(float((p[sample.answerable] >= MEDIUM).mean()), 3),
            }
        )
    return figures


def document(model: LogisticRegression, figures: list[dict[str, Any]]) -> dict[str, Any]:
    weights = dict(zip(NAMES, (round(float(w), 4) for w in model.coef_[0]), strict=True))
    return {
        "explanation": (
            "P(answerable) = 1 / (1 + exp(-(intercept + sum of weight x feature))); the features "
            "are described in rag/confidence.py. Below `low` a question is refused, from `low` it "
            "is answered with a word of caution, from `medium` without one. `low` is where nearly "
            "every answerable question of a course not used for fitting is still answered; "
            "`medium` is even odds. Written by scripts/calibrate.py."
        ),
        "calibration": {
            "weights": weights,
            "intercept": round(float(np.atleast_1d(model.intercept_)[0]), 4),
            "high": HIGH,
            "medium": MEDIUM,
            "low": LOW,
            "limit": LIMIT,
        },
        "held_out": figures,
    }


async def main(data: Path, work: Path) -> None:
    courses = courses_in(data)
    off_path = data / "squad2" / "questions_offtopic.jsonl"
    off = [q["question"] for q in read_questions(off_path)]
    samples = [
        await measure(course, [c for c in courses if c is not course], off, work)
        for course in courses
    ]
    written = document(fit(samples), held_out(samples))
    TARGET.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("data", type=Path)
    arguments.add_argument("--work", type=Path, default=Path(".calibration"))
    given = arguments.parse_args()
    asyncio.run(main(given.data, given.work))
