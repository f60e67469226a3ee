"""An evaluation as one self-contained page for whoever teaches the course. No I/O here."""

from collections.abc import Mapping, Sequence
from html import escape
from statistics import fmean

from rag.evaluation import Bin, Outcome, Rate, Summary

WORST_MISSES = 15
SHOWN_PASSAGES = 3
HISTOGRAM_BINS = 20
WIDTH, HEIGHT, MARGIN = 420, 260, 34
BLUE, ORANGE, GREY = "#2f6f9f", "#d9822b", "#9aa5b1"

STYLE = """
:root { color-scheme: light; --ink: #1f2933; --soft: #616e7c; --line: #e4e7eb; --page: #f7f9fb; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 980px; margin: 0 auto; padding: 40px 20px 80px; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 4px; }
h2 { font-size: 1.2rem; margin: 44px 0 4px; }
p.lead { color: var(--soft); margin: 0 0 14px; max-width: 68ch; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(170px, 1fr)); gap: 12px;
  margin-top: 24px; }
.card, .chart, .miss, table { background: #fff; border: 1px solid var(--line);
  border-radius: 10px; }
.card { padding: 14px 16px; }
.card b { display: block; font-size: 1.65rem; line-height: 1.2;
  font-variant-numeric: tabular-nums; }
.card span { color: var(--soft); font-size: .86rem; display: block; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr)); gap: 16px; }
.chart { padding: 16px; }
.chart h3 { margin: 0; font-size: 1rem; }
.chart p { margin: 2px 0 8px; color: var(--soft); font-size: .88rem; }
svg { width: 100%; height: auto; display: block; }
svg text { font-size: 11px; fill: #616e7c; }
table { width: 100%; border-collapse: separate; border-spacing: 0; overflow: hidden; }
th, td { text-align: left; padding: 8px 14px; border-bottom: 1px solid var(--line); }
tr:last-child td { border-bottom: 0; }
th { font-size: .82rem; color: var(--soft); font-weight: 600; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.bar { background: var(--line); border-radius: 4px; height: 10px; min-width: 120px; }
.bar i { display: block; height: 10px; border-radius: 4px; background: #2f6f9f; }
.miss { padding: 14px 18px; margin-top: 12px; }
.miss h3 { margin: 0 0 6px; font-size: 1rem; }
.miss p { margin: 2px 0; font-size: .92rem; color: var(--soft); overflow-wrap: anywhere; }
.miss ol { margin: 8px 0 0; padding-left: 22px; font-size: .92rem; }
.miss li { margin-top: 6px; overflow-wrap: anywhere; }
.miss q { color: var(--soft); quotes: none; display: block; }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin: 0 5px 0 10px; }
.named { white-space: nowrap; }
"""


def page(
    title: str, outcomes: Sequence[Outcome], summary: Summary, chapters: Mapping[str, str]
) -> str:
    """The whole page; `chapters` names the chapter of every file."""
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{summary.questions} questions. A hit is a file that is known to hold the '
        "answer; another passage may answer too, so compare runs rather than trust one figure.</p>",
        _cards(summary),
        _charts(outcomes, summary),
        _by_chapter(outcomes, chapters),
        _misses(outcomes),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _cards(summary: Summary) -> str:
    cards = [
        *((f"hit@{depth}", _rate(rate), "files") for depth, rate in summary.hit_at.items()),
        ("MRR", _figure(summary.mrr), "files"),
        ("hit in five passages", _rate(summary.hit_handed_on), "as handed to the answer"),
        ("answered", _rate(summary.answered), "of answerable questions"),
        ("refused", _rate(summary.refused), "of unanswerable questions"),
        ("AUROC", _figure(summary.auroc), "answerable above unanswerable"),
        ("calibration error", _figure(summary.calibration_error), "promised against true"),
        ("p95", f"{summary.latency_ms.get('p95', 0):.0f} ms", "to retrieve"),
    ]
    shown = [
        f'<div class="card"><span>{escape(name)}</span><b>{value}</b>'
        f"<span>{escape(note)}</span></div>"
        for name, value, note in cards
        if value
    ]
    return f'<div class="cards">{"".join(shown)}</div>'


def _rate(rate: Rate | None) -> str:
    return "" if rate is None else f"{rate.share:.1%}"


def _figure(figure: float | None) -> str:
    return "" if figure is None else f"{figure:.3f}"


# --- Charts ------------------------------------------------------------------------------------


def _charts(outcomes: Sequence[Outcome], summary: Summary) -> str:
    key = "".join(
        f'<span class="named"><span class="key" style="background:{colour}"></span>{name}</span>'
        for colour, name in ((BLUE, "answerable"), (ORANGE, "unanswerable"))
    )
    charts = [
        ("How sure the gate was", f"Questions by P(answerable). {key}", _histogram(outcomes)),
        (
            "How far its word can be trusted",
            "Of the questions given a probability, the share that was answerable; the line is "
            "perfect.",
            _reliability(summary.reliability),
        ),
    ]
    shown = [
        f'<div class="chart"><h3>{name}</h3><p>{note}</p>{drawing}</div>'
        for name, note, drawing in charts
    ]
    return f'<h2>Knowing when to answer</h2><div class="charts">{"".join(shown)}</div>'


def _x(share: float) -> float:
    return MARGIN + share * (WIDTH - 2 * MARGIN)


def _y(share: float) -> float:
    return HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN)


def _svg(label: str, *shapes: str) -> str:
    axis = "".join(
        f'<text x="{_x(t):.0f}" y="{HEIGHT - MARGIN + 16}" text-anchor="middle">{t:g}</text>'
        for t in (0, 0.25, 0.5, 0.75, 1)
    )
    base = f'<path d="M{_x(0)} {_y(0)}H{_x(1)}" stroke="{GREY}"/>'
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
        f"{''.join(shapes)}{base}{axis}</svg>"
    )


def _histogram(outcomes: Sequence[Outcome]) -> str:
    groups = {BLUE: True, ORANGE: False}
    counts = {
        colour: binned([o.metrics.confidence for o in outcomes if o.asked.answerable is kind])
        for colour, kind in groups.items()
    }
    tallest = max([1, *(n for bins in counts.values() for n in bins)])
    width = (_x(1) - _x(0)) / HISTOGRAM_BINS / 2 - 1
    bars = [
        f'<rect x="{_x(n / HISTOGRAM_BINS) + place * (width + 1) + 0.5:.1f}" '
        f'y="{_y(count / tallest):.1f}" width="{width:.1f}" '
        f'height="{_y(0) - _y(count / tallest):.1f}" fill="{colour}" rx="1.5">'
        f"<title>{count} questions</title></rect>"
        for place, (colour, bins) in enumerate(counts.items())
        for n, count in enumerate(bins)
        if count
    ]
    top = f'<text x="{MARGIN}" y="{MARGIN - 8}">{tallest} questions</text>'
    return _svg("Questions by the gate's probability", *bars, top)


def binned(figures: Sequence[float]) -> list[int]:
    bins = [0] * HISTOGRAM_BINS
    for figure in figures:
        bins[min(int(figure * HISTOGRAM_BINS), HISTOGRAM_BINS - 1)] += 1
    return bins


def _reliability(curve: Sequence[Bin]) -> str:
    diagonal = (
        f'<path d="M{_x(0)} {_y(0)}L{_x(1)} {_y(1)}" stroke="{GREY}" stroke-dasharray="4 4"/>'
    )
    grid = "".join(
        f'<text x="{MARGIN - 6}" y="{_y(t) + 4:.0f}" text-anchor="end">{t:g}</text>'
        for t in (0.5, 1)
    )
    points = " ".join(f"{_x(b.predicted):.1f},{_y(b.observed):.1f}" for b in curve)
    line = f'<polyline points="{points}" fill="none" stroke="{BLUE}" stroke-width="2"/>'
    largest = max((b.cases for b in curve), default=1)
    dots = "".join(
        f'<circle cx="{_x(b.predicted):.1f}" cy="{_y(b.observed):.1f}" '
        f'r="{3 + 7 * (b.cases / largest) ** 0.5:.1f}" fill="{BLUE}" fill-opacity=".75">'
        f"<title>{b.cases} questions: promised {b.predicted:.2f}, true {b.observed:.2f}</title>"
        "</circle>"
        for b in curve
    )
    return _svg("Promised against true", diagonal, grid, line, dots)


# --- Where the course is weak ------------------------------------------------------------------


def _by_chapter(outcomes: Sequence[Outcome], chapters: Mapping[str, str]) -> str:
    groups: dict[str, list[bool]] = {}
    for outcome in outcomes:
        for name in {chapters[f] for f in outcome.asked.gold_files if f in chapters}:
            groups.setdefault(name, []).append(outcome.handed_hit)
    if not groups:
        return ""
    rows = [
        f'<tr><td>{escape(name)}</td><td class="number">{len(hits)}</td>'
        f'<td class="number">{fmean(hits):.0%}</td>'
        f'<td><div class="bar"><i style="width:{fmean(hits):.0%}"></i></div></td></tr>'
        for name, hits in sorted(groups.items(), key=lambda group: (fmean(group[1]), group[0]))
    ]
    return (
        '<h2>By chapter</h2><p class="lead">How often the five passages handed on include the '
        "right file, weakest chapter first.</p><table><thead><tr><th>Chapter</th>"
        '<th class="number">Questions</th><th class="number">Found</th><th></th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _misses(outcomes: Sequence[Outcome]) -> str:
    """The questions that were missed most confidently, then those refused though answerable."""
    missed = [o for o in outcomes if o.asked.gold_files and not o.handed_hit]
    refused = [o for o in outcomes if o.asked.answerable and not o.metrics.should_answer]
    wrong = [o for o in outcomes if o.asked.answerable is False and o.metrics.should_answer]
    sections = [
        ("Not found", "The right file is not among the five passages.", missed),
        ("Refused though answerable", "The gate found too little.", refused),
        ("Answered though unanswerable", "The gate was too sure.", wrong),
    ]
    return "".join(
        f'<h2>{name} ({len(found)})</h2><p class="lead">{note}</p>'
        + "".join(_miss(o) for o in sorted(found, key=_confidence, reverse=True)[:WORST_MISSES])
        for name, note, found in sections
        if found
    )


def _confidence(outcome: Outcome) -> float:
    return outcome.metrics.confidence


def _miss(outcome: Outcome) -> str:
    passages = [
        f"<li>{escape(r.chapter_title)} · {escape(r.section)} <q>{escape(_short(r.text))}</q></li>"
        for r in outcome.ranked[:SHOWN_PASSAGES]
    ]
    gold = ", ".join(sorted(outcome.asked.gold_files))
    expected = f"<p>Expected: {escape(gold)}</p>" if gold else ""
    return (
        f'<div class="miss"><h3>{escape(outcome.asked.question)}</h3>'
        f"<p>P(answerable) {_confidence(outcome):.2f}, {outcome.metrics.confidence_level}</p>"
        f"{expected}<ol>{''.join(passages)}</ol></div>"
    )


def _short(text: str, characters: int = 180) -> str:
    line = " ".join(text.split())
    return line if len(line) <= characters else f"{line[:characters].rsplit(' ', 1)[0]} …"
