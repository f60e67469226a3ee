"""What whoever runs an ingestion should know of a course, though nothing failed. No I/O here."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from rag.ingestion.sources import Source

SHOWN = 3
_EXAM_WORDS = {
    "quiz", "quizzes", "quizes", "exam", "exams", "midterm", "answer", "answers", "answerkey",
    "solution", "solutions", "mcq", "mcqs",
}  # fmt: skip


def advice(sources: Sequence[Source]) -> list[str]:
    """One sentence for each thing worth knowing."""
    found = (_exams(sources), _duplicates(sources), _missing_includes(sources))
    return [sentence for sentence in found if sentence]


def exam_pattern(source_file: str) -> str | None:
    """The `exclude` pattern that fits a quiz or an answer key; None for a lesson."""
    *folders, name = PurePosixPath(source_file).parts
    for folder in folders:
        if _is_exam(folder):
            return f"**/{folder}/**"
    return f"**/{name}" if _is_exam(PurePosixPath(name).stem) else None


def _is_exam(name: str) -> bool:
    return bool(_EXAM_WORDS & set(re.split(r"[^a-z]+", name.lower())))


def _exams(sources: Sequence[Source]) -> str:
    pages = [source.source_file for source in sources if source.offset is None]
    exams = {file: pattern for file in pages if (pattern := exam_pattern(file))}
    if not exams:
        return ""
    patterns = ", ".join(f'"{pattern}"' for pattern in dict.fromkeys(exams.values()))
    kind = _verb(exams, "looks like a quiz or answer key", "look like quizzes or answer keys")
    return (
        f"{_files(list(exams))} {kind}, and answers may quote from there; "
        f"to leave that out, write into course.toml: exclude = [{patterns}]"
    )


def _duplicates(sources: Sequence[Source]) -> str:
    same = [source.source_file for source in sources if source.same_as]
    if not same:
        return ""
    return f"{_files(same)} {_verb(same, 'has', 'have')} the same text as another file, kept once."


def _missing_includes(sources: Sequence[Source]) -> str:
    lacking = [source for source in sources if source.missing]
    if not lacking:
        return ""
    files = [source.source_file for source in lacking]
    example = lacking[0].missing[0]
    return (
        f"{_files(files)} {_verb(files, 'includes', 'include')} files that are not in the course "
        f"folder (such as {example}), whose text is therefore missing."
    )


def _files(files: Sequence[str]) -> str:
    shown = ", ".join(files[:SHOWN])
    more = len(files) - SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _verb(files: Sequence[str] | dict[str, str], one: str, many: str) -> str:
    return one if len(files) == 1 else many
