"""Does the material hold the answer? Two policies over the same figures, both pure functions."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from statistics import fmean, pstdev
from typing import Literal

import numpy as np
from pydantic import BaseModel

from rag.embedding import Vector
from rag.types import ConfidenceLevel, ConfidenceMetrics, SearchResult

Policy = Literal["seed", "calibrated"]


@dataclass(frozen=True)
class Features:
    """Scale-free figures of one retrieval: none depends on the embedder's own range of cosines."""

    best: float
    """The best cosine, in standard deviations of the off-topic bank."""
    spread: float
    """How far the best stand out from the rest, in standard deviations of the off-topic bank."""
    coverage: float
    """Share of the question's words (by rarity) in a passage, averaged over the best passages."""
    known: float
    """Share of the question's words (by rarity) that the course uses at all."""
    files: float
    """Distinct files among the best passages, 0 (one) to 1 (all different)."""

    def as_list(self) -> list[float]:
        return [self.best, self.spread, self.coverage, self.known, self.files]


class Calibration(BaseModel):
    """The fitted numbers of `scripts/calibrate.py`, as kept in `calibration.json`."""

    weights: dict[str, float]
    intercept: float
    high: float
    medium: float
    low: float
    limit: float = 6.0
    """Standardised cosines are clipped here, so that one figure never decides alone."""

    @classmethod
    def shipped(cls) -> "Calibration":
        text = files("rag").joinpath("calibration.json").read_text(encoding="utf-8")
        return cls.model_validate(json.loads(text)["calibration"])

    def probability(self, features: Features) -> float:
        clipped = clip(features, self.limit)
        weighted = (self.weights[name] * value for name, value in vars(clipped).items())
        return 1.0 / (1.0 + math.exp(-(self.intercept + sum(weighted))))

    def level(self, probability: float) -> ConfidenceLevel:
        if probability >= self.high:
            return "high"
        if probability >= self.medium:
            return "medium"
        return "low" if probability >= self.low else "insufficient"


def clip(features: Features, limit: float) -> Features:
    return Features(
        best=min(max(features.best, -limit), limit),
        spread=min(max(features.spread, -limit), limit),
        coverage=features.coverage,
        known=features.known,
        files=features.files,
    )


def calibrated(
    results: Sequence[SearchResult],
    vectors: Sequence[Vector],
    features: Features,
    calibration: Calibration,
) -> ConfidenceMetrics:
    """The default policy: P(answerable) from a small logistic model over scale-free features."""
    if not results:
        return ConfidenceMetrics(policy="calibrated", p_answerable=0.0)
    probability = calibration.probability(features)
    level = calibration.level(probability)
    return _metrics(results, vectors).model_copy(
        update={
            "policy": "calibrated",
            "p_answerable": probability,
            "confidence_level": level,
            "should_answer": level != "insufficient",
        }
    )


def seed(results: Sequence[SearchResult], vectors: Sequence[Vector]) -> ConfidenceMetrics:
    """The literal rule on raw mean similarity and number of passages."""
    metrics = _metrics(results, vectors)
    level = seed_level(metrics.average_similarity, metrics.num_chunks)
    return metrics.model_copy(
        update={"confidence_level": level, "should_answer": level != "insufficient"}
    )


def seed_level(average_similarity: float, num_chunks: int) -> ConfidenceLevel:
    if average_similarity >= 0.85 and num_chunks >= 5:
        return "high"
    if average_similarity >= 0.75 and num_chunks >= 3:
        return "medium"
    return "low" if average_similarity >= 0.60 and num_chunks >= 2 else "insufficient"


def _metrics(results: Sequence[SearchResult], vectors: Sequence[Vector]) -> ConfidenceMetrics:
    similarities = [result.similarity for result in results]
    if not similarities:
        return ConfidenceMetrics()
    return ConfidenceMetrics(
        average_similarity=fmean(similarities),
        min_similarity=min(similarities),
        max_similarity=max(similarities),
        num_chunks=len(similarities),
        chunk_diversity=diversity(vectors),
    )


def diversity(vectors: Sequence[Vector]) -> float:
    """1 - mean pairwise cosine; 0 when there is nothing to compare."""
    if len(vectors) < 2:
        return 0.0
    matrix = np.stack(vectors)
    upper = np.triu_indices(len(vectors), k=1)
    mean_cosine = float((matrix @ matrix.T)[upper].mean())
    return min(max(1.0 - mean_cosine, 0.0), 1.0)


def spread_of(cosines: Sequence[float]) -> float:
    return pstdev(cosines) if len(cosines) > 1 else 0.0


def rarity(term: int, frequency: Mapping[int, int], chunks: int) -> float:
    """Inverse document frequency, positive for every term and largest for an unknown one."""
    return math.log(1.0 + (chunks + 0.5) / (frequency.get(term, 0) + 0.5))


def weighted_share(terms: Mapping[int, float], present: set[int] | Mapping[int, int]) -> float:
    """The share of the terms' weight that is present; a question without words shares nothing."""
    total = sum(terms.values())
    return sum(w for term, w in terms.items() if term in present) / total if total else 0.0
