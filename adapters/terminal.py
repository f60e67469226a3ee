"""Questions and answers in a terminal: rich for a person, plain for a pipe."""

import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

from rich.console import Console, Group
from rich.live import Live
from rich.markdown import Markdown
from rich.panel import Panel
from rich.spinner import Spinner
from rich.text import Text

from rag.errors import FootnoteError
from rag.types import (
    AgentResponse,
    AnswerEvent,
    Citation,
    ConfidenceLevel,
    Delta,
    Done,
    Question,
    StateChanged,
)

Answer = Callable[[Question], AsyncIterator[AnswerEvent]]
ReadLine = Callable[[], Awaitable[str | None]]
"""The next line a person types; None when they are done."""

STATES = {"PENDING": "Thinking…", "RETRIEVING": "Searching the book…", "GENERATING": "Writing…"}
MARKS: dict[ConfidenceLevel, tuple[str, str]] = {
    "high": ("●●●", "green"),
    "medium": ("●●○", "green"),
    "low": ("●○○", "yellow"),
    "insufficient": ("○○○", "red"),
}
HELP = "Ask a question. /sources: where the last answer comes from. /new: start afresh. /quit: end."
_MARKER = re.compile(r"\[(\d{1,3})\]")
_FENCE = re.compile(r"^ {0,3}(```|~~~)", re.MULTILINE)
_CODE = re.compile(r"(```.*?```|~~~.*?~~~|`[^`\n]*`)", re.DOTALL)


class Terminal:
    """One person at one console."""

    def __init__(self, console: Console, answer: Answer, course: str | None = None) -> None:
        self._console = console
        self._answer = answer
        self._course = course
        self._session = str(uuid.uuid4())
        self._last: AgentResponse | None = None

    async def ask(self, text: str, session: str | None = None) -> AgentResponse:
        """One question; shows the answer as it comes and returns it."""
        question = Question(
            text=text,
            course=self._course,
            conversation_key=f"terminal:{session or self._session}",
            message_id=f"terminal:{uuid.uuid4()}",
        )
        return await self._show(self._answer(question))

    async def chat(self, read_line: ReadLine) -> None:
        """A conversation until the person leaves."""
        self._console.print(Text(HELP, style="dim"))
        while (line := await read_line()) is not None:
            command = line.strip()
            if command in ("/quit", "/exit"):
                return
            if command.startswith("/"):
                self._command(command)
            elif command:
                await self._exchange(command)

    async def _exchange(self, text: str) -> None:
        try:
            self._last = await self.ask(text)
        except FootnoteError as error:  # one question's failure does not end the conversation
            self._console.print(Text(str(error), style="red"))

    def _command(self, command: str) -> None:
        if command == "/new":
            self._session, self._last = str(uuid.uuid4()), None
            self._console.print(Text("A new conversation.", style="dim"))
        elif command == "/sources":
            self._sources()
        else:
            self._console.print(Text(HELP, style="dim"))

    def _sources(self) -> None:
        cited = (self._last.citations or self._last.closest) if self._last else []
        if not cited:
            self._console.print(Text("There are no sources to show yet.", style="dim"))
        for citation in cited:
            self._console.print(source_line(citation))
            self._console.print(Text(f"   {shortened(citation.chunk_text)}", style="dim"))

    async def _show(self, events: AsyncIterator[AnswerEvent]) -> AgentResponse:
        if not self._console.is_terminal:
            return await self._show_plain(events)
        blocks = BlockBuffer()
        doing = Spinner("dots", STATES["PENDING"])
        with Live(doing, console=self._console, transient=True) as live:
            async for event in events:
                match event:
                    case StateChanged(state=state):
                        doing.update(text=STATES.get(state, ""))
                    case Delta(text=text, citations=citations):
                        for block in blocks.add(text, citations):
                            self._console.print(Markdown(block))
                        # The paragraph that is still growing is redrawn with every sentence.
                        live.update(Group(Markdown(blocks.begun), doing), refresh=True)
                    case Done(response=response):
                        live.stop()
                        for block in blocks.rest():
                            self._console.print(Markdown(block))
                        self._close(response)
                        return response
        raise RuntimeError("an answer ended without its Done event")

    def _close(self, response: AgentResponse) -> None:
        """What follows the text: sources and confidence, or the whole refusal."""
        if response.kind == "chat":
            self._console.print(Markdown(response.content))
        elif response.kind == "refusal":
            title = Text("not in the book", style="bold yellow")
            panel = Panel(refusal_text(response), title=title, border_style="yellow")
            self._console.print(panel)
        else:
            self._console.print(confidence_mark(response.confidence_level))
            for citation in response.citations:
                self._console.print(source_line(citation))
        if response.notice:
            self._console.print(Text(response.notice, style="italic yellow"))

    async def _show_plain(self, events: AsyncIterator[AnswerEvent]) -> AgentResponse:
        async for event in events:
            if isinstance(event, Done):
                self._console.print(
                    plain(event.response), markup=False, highlight=False, soft_wrap=True
                )
                return event.response
        raise RuntimeError("an answer ended without its Done event")


class BlockBuffer:
    """Lets an answer's text through in whole Markdown blocks, with its markers made links."""

    def __init__(self) -> None:
        self._text = ""
        self._citations: dict[int, Citation] = {}

    def add(self, text: str, citations: list[Citation]) -> list[str]:
        self._citations |= {citation.n: citation for citation in citations}
        self._text += text
        end = self._text.rfind("\n\n")
        while end > 0 and len(_FENCE.findall(self._text[:end])) % 2:
            end = self._text.rfind("\n\n", 0, end)
        if end <= 0:
            return []
        ready, self._text = self._text[:end], self._text[end:].lstrip("\n")
        return [linked(ready, self._citations)]

    @property
    def begun(self) -> str:
        """The block that is not whole yet, as far as it goes."""
        return linked(self._text, self._citations)

    def rest(self) -> list[str]:
        ready, self._text = self._text.strip(), ""
        return [linked(ready, self._citations)] if ready else []


def confidence_mark(level: ConfidenceLevel) -> Text:
    """Fuller and greener, the surer."""
    mark, style = MARKS[level]
    return Text(mark, style=style).append(f" confidence: {level}", style="dim")


def linked(text: str, citations: dict[int, Citation]) -> str:
    """Markers outside code become the chapter and section they stand for."""

    def link(marker: re.Match[str]) -> str:
        citation = citations.get(int(marker[1]))
        if citation is None:
            return ""
        label = citation.label.replace("[", "(").replace("]", ")")
        return f"[{label}](<{citation.url}>)" if is_public(citation.url) else f"*({label})*"

    parts = _CODE.split(text)
    return "".join(p if i % 2 else _MARKER.sub(link, p) for i, p in enumerate(parts))


def is_public(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def source_line(citation: Citation) -> Text:
    style = f"cyan link {citation.url}" if is_public(citation.url) else "cyan"
    place = f"{citation.chapter_name} — {citation.section}"
    return Text(f"{citation.n}. ", style="dim").append(place, style=style)


def refusal_text(response: AgentResponse) -> Text:
    text = Text(response.content, style="yellow")
    if response.closest:
        text.append("\n\nClosest sections:", style="dim")
    for citation in response.closest:
        text.append("\n").append_text(source_line(citation))
    return text


def shortened(text: str, limit: int = 200) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def plain(response: AgentResponse) -> str:
    """The answer for a pipe: `[Source: page]` inline, and the numbered sources below."""
    cited = {citation.n: citation for citation in response.citations}

    def source(marker: re.Match[str]) -> str:
        citation = cited.get(int(marker[1]))
        return f"[Source: {citation.page_title}]" if citation else ""

    parts = _CODE.split(response.content)
    text = "".join(p if i % 2 else _MARKER.sub(source, p) for i, p in enumerate(parts))
    sources = response.citations or response.closest
    lines = [text, *([response.notice] if response.notice else [])]
    if sources:
        heading = "**Sources:**" if response.citations else "**Closest sections:**"
        lines += ["", "---", heading]
        lines += [f"[{c.n}] {c.url} (score: {c.similarity:.2f})" for c in sources]
    return "\n".join(lines)
