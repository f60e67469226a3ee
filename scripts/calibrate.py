"""Fits the confidence gate on real courses and writes rag/calibration.json.

    python scripts/calibrate.py ../shared/data

Every course is ingested once into a working folder. Its own questions are answerable; questions
about something else entirely, and the other courses' questions, are not. Each course is also held
out in turn; the weights fitted without it, and what they reach on it, are kept beside the others.
"""

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from evaluation_courses import (
    Course,
    courses_in,
    foreign,
    mixed_weights,
    off_topic,
    opened,
    weighted_calibration_error,
    written,
)
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from rag.confidence import Calibration, Features
from rag.embedding.local import LocalEmbedder
from rag.evaluation import EvaluationQuestion, auroc
from rag.followups import Asked
from rag.narrowing import without_setting
from rag.profile import CANDIDATES
from rag.retrieval import features_of, fused

NAMES = ("best", "nearest", "known", "files")
LOW, MEDIUM, HIGH = 0.3, 0.5, 0.8
LOWEST, HIGHEST = -1.0, 1.5
TARGET = Path(__file__).resolve().parent.parent / "rag" / "calibration.json"
EXPLANATION = (
    "P(answerable) = 1 / (1 + exp(-(intercept + sum of weight x feature))); rag/confidence.py "
    "describes the features. Below `low` a question is refused, from `low` it is answered with a "
    "word of caution, from `medium` without one. `low` is the lowest tenth at which each course, "
    "held out, still refuses 97 % of the off-topic questions, while 95 % of its own are answered; "
    "`medium` is even odds; from `high` fewer than one in ten is wrong. `held_out` has the weights "
    "fitted without a course and what they reach on it. Written by scripts/calibrate.py."
)


@dataclass(frozen=True)
class Sample:
    """The features of every question asked of one course, and what kind of question each is."""

    course: str
    rows: NDArray[np.float64]
    kinds: NDArray[np.int_]
    """0 answerable, 1 off-topic, 2 another course's."""


async def measure(course: Course, courses: Sequence[Course], off: Any, work: Path) -> Sample:
    embedder = LocalEmbedder.load()
    groups = (course.questions, off, foreign(course, courses))
    async with opened(course, embedder, work) as open_course:

        async def features(question: EvaluationQuestion) -> list[float]:
            share = open_course.profile.vocabulary.share
            asked = Asked.alone(without_setting(question.question, share))
            (text,) = asked.texts
            vector = await embedder.embed_query(text)
            found = await open_course.index.search(vector, asked.terms, course.filters, CANDIDATES)
            ranked = fused(found, asked, open_course.profile)
            seen = features_of(ranked, asked, open_course.profile).clipped(LOWEST, HIGHEST)
            return [getattr(seen, name) for name in NAMES]

        rows = [await features(question) for group in groups for question in group]
    kinds = np.repeat(np.arange(3), [len(group) for group in groups])
    return Sample(course.name, np.array(rows), kinds)


def fit(samples: Sequence[Sample]) -> Calibration:
    """Every course counts the same."""
    rows = np.concatenate([sample.rows for sample in samples])
    answerable = np.concatenate([sample.kinds == 0 for sample in samples])
    weights = np.concatenate([mixed_weights(sample.kinds) for sample in samples])
    model = LogisticRegression(C=1.0, max_iter=1000)
    model.fit(rows, answerable, sample_weight=weights * len(rows) / weights.sum())
    return Calibration(
        weights=dict(zip(NAMES, (round(float(w), 4) for w in model.coef_[0]), strict=True)),
        intercept=round(float(np.atleast_1d(model.intercept_)[0]), 4),
        low=LOW,
        medium=MEDIUM,
        high=HIGH,
        lowest=LOWEST,
        highest=HIGHEST,
    )


def probabilities(calibration: Calibration, sample: Sample) -> NDArray[np.float64]:
    seen = [Features(**dict(zip(NAMES, row, strict=True))) for row in sample.rows.tolist()]
    return np.array([calibration.probability(features) for features in seen])


def held_out(sample: Sample, samples: Sequence[Sample]) -> dict[str, Any]:
    calibration = fit([other for other in samples if other is not sample])
    p, kinds = probabilities(calibration, sample), sample.kinds
    own, other = p[kinds == 0], p[kinds == 2]
    figures = {
        "answered": float((own >= LOW).mean()),
        "off_topic_refused": float((p[kinds == 1] < LOW).mean()),
        "other_courses_auroc": auroc(own.tolist(), other.tolist()) or 0.0,
        "calibration_error": weighted_calibration_error(p, kinds),
        "shown_as_medium_or_high": float((own >= MEDIUM).mean()),
        "wrong_when_high": float((np.concatenate([p[kinds == 1], other]) >= HIGH).mean()),
    }
    fitted = calibration.model_dump(include={"weights", "intercept"})
    return {"course": sample.course, **fitted, **{n: round(f, 3) for n, f in figures.items()}}


async def main(data: Path, work: Path) -> None:
    courses = courses_in(data)
    off = off_topic(data)
    samples = [await measure(course, courses, off, work) for course in courses]
    document = {
        "explanation": EXPLANATION,
        "calibration": fit(samples).model_dump(),
        "held_out": [held_out(sample, samples) for sample in samples],
    }
    written(TARGET, document)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("data", type=Path)
    arguments.add_argument("--work", type=Path, default=Path(".bench"))
    given = arguments.parse_args()
    asyncio.run(main(given.data, given.work))
