"""Measures verification on labelled claims: how much of what is supported stays, and how much of
what is not goes, by kind. Prints a Markdown table.

    python scripts/measure_claims.py [CLAIMS.jsonl]
"""

import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag.checking import Checker
from rag.embedding import Embedder
from rag.embedding.local import LocalEmbedder
from rag.types import SearchResult
from rag.units import UnitCutter

CLAIMS = Path(__file__).resolve().parent.parent / "tests/data/claims.jsonl"
_CODE = re.compile(r"`([^`]+)`")
_NAMED = re.compile(r"(?<![.!?:] )(?<!^)\b[A-Z][\w-]+|\b\w*\d[\w.]*|\b\w+_\w+|\b[A-Z]{2,}\w*")


@dataclass(frozen=True)
class Measured:
    """One claim with what became of it."""

    id: str
    kind: str
    claim: str
    supported: bool
    kept: bool
    is_new: bool
    """Whether it has a number or a name that its passage does not have, by plain search."""
    fault: str


@dataclass(frozen=True)
class Shares:
    """The figures the bars are about."""

    supported_kept: float
    new_dropped: float
    unsupported_dropped: float


async def measure(rows: Sequence[dict[str, Any]], embedder: Embedder) -> list[Measured]:
    return [await measured(row, embedder) for row in rows]


async def measured(row: dict[str, Any], embedder: Embedder) -> Measured:
    checker = Checker([passage_of(row)], row["question"], embedder)
    cutter = UnitCutter()
    checked = [await checker.check(unit) for unit in cutter.feed(row["claim"]) + cutter.finish()]
    return Measured(
        id=row["id"],
        kind=row["kind"],
        claim=row["claim"],
        supported=row["supported"],
        kept=any(checked) and not checker.dropped,
        is_new=has_something_new(row),
        fault=checker.dropped[0][1] if checker.dropped else "",
    )


def has_something_new(row: dict[str, Any]) -> bool:
    """Looked for without the code that is measured: is a named thing simply absent?"""
    known = " ".join((row["passage"], row["title"], row["breadcrumb"], row["question"])).lower()
    claim = re.sub(r"^\d+\. |^- ", "", row["claim"])
    in_code = [word for span in _CODE.findall(claim) for word in span.split()]
    named = [word.rstrip(".") for word in _NAMED.findall(_CODE.sub(" ", claim))]
    return any(word.strip("'\"").lower() not in known for word in in_code + named)


def passage_of(row: dict[str, Any]) -> SearchResult:
    return SearchResult(
        chunk_id=row["id"],
        text=row["passage"],
        score=1.0,
        similarity=1.0,
        rank=1,
        source_file=row["title"],
        section_title=row["breadcrumb"].rpartition(" > ")[2],
        page_title=row["title"],
        chapter_title=row["title"],
        breadcrumb=row["breadcrumb"],
        url="/",
        module="main",
        chapter=1,
        lesson=1,
        hardware_tier=1,
        proficiency_level="A2",
        layer="L1",
        chunk_index=0,
        total_chunks=1,
        parent_doc_id=None,
        prev_chunk_id=None,
        next_chunk_id=None,
        content_hash=None,
    )


def shares(claims: Sequence[Measured]) -> Shares:
    supported = [c.kept for c in claims if c.supported]
    unsupported = [not c.kept for c in claims if not c.supported]
    new = [not c.kept for c in claims if not c.supported and c.is_new]
    return Shares(
        supported_kept=sum(supported) / len(supported),
        new_dropped=sum(new) / len(new),
        unsupported_dropped=sum(unsupported) / len(unsupported),
    )


def table(claims: Sequence[Measured]) -> str:
    all_of = Counter((c.supported, c.kind) for c in claims)
    kept = Counter((c.supported, c.kind) for c in claims if c.kept)
    lines = ["| claims | kind | number | shown | dropped |", "|---|---|---:|---:|---:|"]
    for key in sorted(all_of, reverse=True):
        label = "supported" if key[0] else "unsupported"
        share = kept[key] / all_of[key]
        lines.append(f"| {label} | {key[1]} | {all_of[key]} | {share:.0%} | {1 - share:.0%} |")
    return "\n".join(lines)


def read_claims(path: Path = CLAIMS) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


async def main(path: Path) -> None:
    claims = await measure(read_claims(path), LocalEmbedder.load(None))
    found = shares(claims)
    new = sum(c.is_new and not c.supported for c in claims)
    out = [
        table(claims),
        "",
        f"- supported sentences kept: {found.supported_kept:.1%}",
        f"- dropped, of the {new} with a number or name that the passage does not have: "
        f"{found.new_dropped:.1%}",
        f"- unsupported sentences dropped: {found.unsupported_dropped:.1%}",
        "",
        *(f"lost: {c.id} {c.claim} ({c.fault})" for c in claims if c.supported and not c.kept),
        *(f"new but shown: {c.id} {c.claim}" for c in claims if is_missed(c)),
    ]
    sys.stdout.write("\n".join(out) + "\n")


def is_missed(claim: Measured) -> bool:
    return claim.kept and claim.is_new and not claim.supported


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else CLAIMS))
