"""Does the material hold the answer? Two policies over the same figures, both pure functions."""

import json
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from statistics import fmean
from typing import Literal, Protocol

import numpy as np
from pydantic import BaseModel

from rag.embedding import Vector
from rag.index import Candidate
from rag.types import ConfidenceLevel, ConfidenceMetrics, SearchResult

Policy = Literal["seed", "calibrated"]


GATED_PASSAGES = 5
NORMALISED = ("best", "nearest")
"""Evidence that depends on the embedder's own range of cosines: judged relative to the bank."""


@dataclass(frozen=True)
class Evidence:
    """What one retrieval shows, as measured."""

    best: float
    """The best cosine."""
    nearest: float
    """The mean of the five best cosines: a subject that the course treats has several passages."""
    known: float
    """Share of the question's words (by rarity) that the course uses at all."""
    files: float
    """Distinct files among the best passages, 0 (one) to 1 (all different)."""


class Standardises(Protocol):
    """Places a figure relative to what unrelated questions reach."""

    def standardised(self, figure: float) -> float: ...


@dataclass(frozen=True)
class Features(Evidence):
    """Evidence on a scale-free footing: for cosines, 0 is what an unrelated question reaches and 1
    how close the course's passages are to each other."""

    @classmethod
    def of(cls, evidence: Evidence, yardsticks: Mapping[str, Standardises]) -> "Features":
        figures = vars(evidence).copy()
        return cls(**(figures | {n: yardsticks[n].standardised(figures[n]) for n in NORMALISED}))

    def clipped(self, low: float, high: float) -> "Features":
        bounded = {name: min(max(getattr(self, name), low), high) for name in NORMALISED}
        return replace(self, **bounded)


def evidence_of(
    ranked: Sequence[Candidate], words: Mapping[int, float], vocabulary: "WordCounts"
) -> Evidence:
    """The evidence in ranked candidates; `words` are the question's, by their weight."""
    cosines = sorted((c.cosine for c in ranked), reverse=True)[:GATED_PASSAGES]
    asked = {term: weight * vocabulary.rarity(term) for term, weight in words.items()}
    best = ranked[:GATED_PASSAGES]
    names = {c.source_file for c in best}
    return Evidence(
        best=cosines[0] if cosines else 0.0,
        nearest=fmean(cosines) if cosines else 0.0,
        known=weighted_share(asked, vocabulary.frequency),
        files=(len(names) - 1) / (len(best) - 1) if len(best) > 1 else 0.0,
    )


class WordCounts(Protocol):
    """How rare a word is in a course."""

    @property
    def frequency(self) -> Mapping[int, int]: ...

    def rarity(self, term: int) -> float: ...


class Calibration(BaseModel):
    """The fitted numbers of `scripts/calibrate.py`, as kept in `calibration.json`."""

    weights: dict[str, float]
    intercept: float
    high: float
    medium: float
    low: float
    lowest: float = -1.0
    highest: float = 1.5
    """Standardised cosines are clipped here, so that one figure never decides alone."""

    @classmethod
    def shipped(cls) -> "Calibration":
        text = files("rag").joinpath("calibration.json").read_text(encoding="utf-8")
        return cls.model_validate(json.loads(text)["calibration"])

    def probability(self, features: Features) -> float:
        clipped = features.clipped(self.lowest, self.highest)
        weighted = (weight * getattr(clipped, name) for name, weight in self.weights.items())
        return 1.0 / (1.0 + math.exp(-(self.intercept + sum(weighted))))

    def level(self, probability: float) -> ConfidenceLevel:
        if probability >= self.high:
            return "high"
        if probability >= self.medium:
            return "medium"
        return "low" if probability >= self.low else "insufficient"


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


def rarity(frequency: int, chunks: int) -> float:
    """Inverse document frequency, positive for every word and largest for an unknown one."""
    return math.log(1.0 + (chunks + 0.5) / (frequency + 0.5))


def weighted_share(words: Mapping[int, float], present: Container[int]) -> float:
    """The share of the words' weight that is present; a question without words shares nothing."""
    total = sum(words.values())
    return sum(w for term, w in words.items() if term in present) / total if total else 0.0
