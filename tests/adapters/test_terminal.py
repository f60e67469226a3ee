"""Answers in a terminal, for a person and for a pipe."""

import re
from collections.abc import AsyncIterator, Sequence
from io import StringIO

import pytest
from rich.console import Console

from adapters.terminal import (
    HELP,
    BlockBuffer,
    ReadLine,
    Terminal,
    confidence_mark,
    linked,
    plain,
    shortened,
    source_line,
)
from rag.errors import CourseError
from rag.types import (
    AgentResponse,
    AnswerEvent,
    Citation,
    ConfidenceLevel,
    ConfidenceMetrics,
    Delta,
    Done,
    Question,
    StateChanged,
)

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
FENCED = "```python\nx = values[1]\n\ny = values[2]\n```"


def cite(n: int = 1, **overrides: object) -> Citation:
    fields: dict[str, object] = {
        "n": n,
        "page_title": "Nodes and topics",
        "chapter_title": "ROS 2",
        "chapter": 3,
        "section": "Communication patterns",
        "url": f"https://example.org/ros2#{n}",
        "module": "ros2",
        "chunk_id": f"chunk-{n}",
        "chunk_text": "Topics carry typed messages.",
        "similarity": 0.7,
    }
    return Citation.model_validate(fields | overrides)


def answer(content: str, *citations: Citation, **overrides: object) -> AgentResponse:
    metrics = ConfidenceMetrics(confidence_level="high", should_answer=True)
    fields: dict[str, object] = {"content": content, "kind": "answer", "metrics": metrics}
    return AgentResponse.model_validate(fields | {"citations": list(citations)} | overrides)


def refusal(*closest: Citation) -> AgentResponse:
    return AgentResponse(
        content="That is not in the book.",
        kind="refusal",
        refused_by="gate",
        closest=list(closest),
    )


class Script:
    """Answers every question with the same events, and keeps the questions."""

    def __init__(self, *events: AnswerEvent) -> None:
        self.events = events
        self.questions: list[Question] = []

    async def __call__(self, question: Question) -> AsyncIterator[AnswerEvent]:
        self.questions.append(question)
        for event in self.events:
            yield event


def streamed(response: AgentResponse, *pieces: str) -> Script:
    """The response's text in pieces, all citations with the first."""
    deltas = [
        Delta(text=piece, citations=response.citations if i == 0 else [])
        for i, piece in enumerate(pieces)
    ]
    states = [StateChanged(state="RETRIEVING"), StateChanged(state="GENERATING")]
    return Script(*states, *deltas, Done(response=response))


class Screen:
    """A console on which everything that was ever printed can be read."""

    def __init__(self, is_terminal: bool = True) -> None:
        self._file = StringIO()
        self.console = Console(
            file=self._file, force_terminal=is_terminal, width=80, color_system="truecolor"
        )

    @property
    def raw(self) -> str:
        return self._file.getvalue()

    @property
    def text(self) -> str:
        """What stands on it in the end, without colours, links and spaces that fill a line."""
        visible = re.sub(r"\x1b\]8;[^\x1b]*\x1b\\", "", self.raw)
        lines, row = [""], 0
        for part in re.split(r"(\n|\r|\x1b\[1A|\x1b\[2K)", visible):
            if part == "\n":
                row += 1
                lines += [""] if row == len(lines) else []
            elif part == "\x1b[1A":
                row -= 1
            elif part == "\x1b[2K":
                lines[row] = ""
            elif part != "\r":
                lines[row] += ESCAPES.sub("", part)
        return "\n".join(line.rstrip() for line in lines).rstrip()


def typed(lines: Sequence[str]) -> ReadLine:
    waiting = iter(lines)

    async def read_line() -> str | None:
        return next(waiting, None)

    return read_line


# --- For a person ------------------------------------------------------------------------------


async def test_an_answer_is_shown_with_its_sources_and_confidence() -> None:
    screen = Screen()
    response = answer("Topics are typed [1].", cite())
    shown = await Terminal(screen.console, streamed(response, "Topics are ", "typed [1].")).ask("?")
    assert shown == response
    assert "Topics are typed Ch. 3 · Communication patterns." in screen.text
    assert "confidence: high" in screen.text
    assert "1. Chapter 3: ROS 2 — Communication patterns" in screen.text
    assert screen.text.count("Topics are typed") == 1


async def test_a_sentence_is_shown_while_its_paragraph_still_grows() -> None:
    screen = Screen()
    seen: list[str] = []

    async def answering(question: Question) -> AsyncIterator[AnswerEvent]:
        yield Delta(text="Topics are typed.")
        seen.append(screen.raw)
        yield Delta(text=" They have names.")
        yield Done(response=answer("Topics are typed. They have names."))

    await Terminal(screen.console, answering).ask("?")
    assert "Topics are typed." in seen[0]
    assert "Topics are typed. They have names." in screen.text
    assert screen.text.count("Topics are typed.") == 1


@pytest.mark.parametrize(("level", "mark"), [("high", "●●●"), ("medium", "●●○"), ("low", "●○○")])
def test_the_surer_the_fuller_the_mark(level: ConfidenceLevel, mark: str) -> None:
    assert confidence_mark(level).plain == f"{mark} confidence: {level}"


async def test_citations_are_links_a_terminal_can_open() -> None:
    screen = Screen()
    response = answer("Topics are typed [1].", cite())
    await Terminal(screen.console, streamed(response, response.content)).ask("?")
    assert screen.raw.count("https://example.org/ros2#1\x1b\\") >= 2


async def test_a_page_without_a_public_address_is_named_but_not_linked() -> None:
    screen = Screen()
    response = answer("Topics are typed [1].", cite(url="/read/robotics/nodes.md"))
    await Terminal(screen.console, streamed(response, response.content)).ask("?")
    assert "(Ch. 3 · Communication patterns)" in screen.text
    assert "/read/robotics" not in screen.raw


async def test_code_in_an_answer_keeps_its_brackets() -> None:
    screen = Screen()
    response = answer(f"Like this [1]:\n\n{FENCED}", cite())
    pieces = ["Like this [1]:\n\n```python\nx = val", "ues[1]\n\ny = values[2]\n```"]
    await Terminal(screen.console, streamed(response, *pieces)).ask("?")
    assert "x = values[1]" in screen.text
    assert "y = values[2]" in screen.text
    assert "Like this Ch. 3 · Communication patterns:" in screen.text


async def test_a_refusal_stands_in_a_panel_with_the_closest_sections() -> None:
    screen = Screen()
    script = Script(StateChanged(state="NO_RESULTS"), Done(response=refusal(cite())))
    await Terminal(screen.console, script).ask("Who won the cup?")
    assert "╭" in screen.text
    assert "not in the book" in screen.text.splitlines()[0]
    assert "That is not in the book." in screen.text
    assert "Closest sections:" in screen.text
    assert "1. Chapter 3: ROS 2 — Communication patterns" in screen.text
    assert "confidence" not in screen.text


async def test_a_sentence_that_is_no_answer_stands_alone() -> None:
    screen = Screen()
    hint = AgentResponse(content="Ask me [something].", kind="chat")
    await Terminal(screen.console, Script(Done(response=hint))).ask("")
    assert "Ask me [something]." in screen.text
    assert "confidence" not in screen.text


async def test_a_notice_is_shown_below_the_answer() -> None:
    screen = Screen()
    response = answer("Topics are typed.", notice="Please check the sections.")
    await Terminal(screen.console, streamed(response, response.content)).ask("?")
    assert screen.text.index("Topics are typed.") < screen.text.index("Please check the sections.")


@pytest.mark.parametrize("is_terminal", [True, False])
async def test_an_answer_without_an_end_is_an_error(is_terminal: bool) -> None:
    screen = Screen(is_terminal)
    with pytest.raises(RuntimeError, match="without its Done event"):
        await Terminal(screen.console, Script(StateChanged(state="PENDING"))).ask("?")


# --- A conversation ----------------------------------------------------------------------------


async def test_a_chat_is_one_conversation_until_a_new_one_begins() -> None:
    screen = Screen()
    script = streamed(answer("Yes."), "Yes.")
    lines = ["first", "  ", "second", "/new", "third", "/quit", "never asked"]
    await Terminal(screen.console, script, "robotics").chat(typed(lines))
    assert [question.text for question in script.questions] == ["first", "second", "third"]
    first, second, third = [question.conversation_key for question in script.questions]
    assert first == second != third
    assert first.startswith("terminal:")
    assert len({question.message_id for question in script.questions}) == 3
    assert {question.course for question in script.questions} == {"robotics"}
    assert "A new conversation." in screen.text


async def test_a_given_session_names_the_conversation() -> None:
    script = streamed(answer("Yes."), "Yes.")
    await Terminal(Screen().console, script).ask("first", session="abc")
    assert script.questions[0].conversation_key == "terminal:abc"


async def test_the_end_of_input_ends_the_chat() -> None:
    script = Script()
    await Terminal(Screen().console, script).chat(typed([]))
    assert script.questions == []


async def test_a_question_that_fails_does_not_end_the_chat() -> None:
    asked: list[str] = []

    async def unreachable(question: Question) -> AsyncIterator[AnswerEvent]:
        asked.append(question.text)
        yield StateChanged(state="PENDING")
        raise CourseError("There are several courses.")

    screen = Screen()
    await Terminal(screen.console, unreachable).chat(typed(["first", "second"]))
    assert asked == ["first", "second"]
    assert screen.text.count("There are several courses.") == 2


async def test_sources_shows_the_passages_of_the_last_answer() -> None:
    screen = Screen()
    script = streamed(answer("Topics are typed [1].", cite()), "Topics are typed [1].")
    await Terminal(screen.console, script).chat(typed(["question", "/sources"]))
    assert "Topics carry typed messages." in screen.text


async def test_sources_of_a_refusal_are_the_closest_sections() -> None:
    screen = Screen()
    script = Script(Done(response=refusal(cite())))
    await Terminal(screen.console, script).chat(typed(["question", "/sources"]))
    assert "Topics carry typed messages." in screen.text


@pytest.mark.parametrize("lines", [["/sources"], ["question", "/new", "/sources"]])
async def test_without_an_answer_there_are_no_sources(lines: list[str]) -> None:
    screen = Screen()
    script = streamed(answer("Topics are typed [1].", cite()), "Topics are typed [1].")
    await Terminal(screen.console, script).chat(typed(lines))
    assert "There are no sources to show yet." in screen.text


async def test_an_unknown_command_shows_what_there_is() -> None:
    screen = Screen(is_terminal=False)
    await Terminal(screen.console, Script()).chat(typed(["/dance"]))
    assert screen.text.replace("\n", " ").count(HELP) == 2


# --- For a pipe --------------------------------------------------------------------------------


async def test_a_pipe_gets_plain_text_once() -> None:
    screen = Screen(is_terminal=False)
    response = answer(f"Topics are typed [1]. {'Long words ' * 20}", cite())
    await Terminal(screen.console, streamed(response, response.content)).ask("?")
    assert "\x1b" not in screen.raw
    assert screen.raw == plain(response) + "\n"


def test_plain_text_names_its_pages_inline_and_lists_them_below() -> None:
    assert plain(answer("Topics are typed [1]. So there [9].", cite())) == (
        "Topics are typed [Source: Nodes and topics]. So there .\n"
        "\n"
        "---\n"
        "**Sources:**\n"
        "[1] https://example.org/ros2#1 (score: 0.70)"
    )


def test_plain_text_of_a_refusal_lists_the_closest_sections() -> None:
    assert plain(refusal(cite())).splitlines() == [
        "That is not in the book.",
        "",
        "---",
        "**Closest sections:**",
        "[1] https://example.org/ros2#1 (score: 0.70)",
    ]


def test_plain_text_carries_the_notice() -> None:
    assert plain(answer("Yes.", notice="Please check.")) == "Yes.\nPlease check."


@pytest.mark.parametrize("code", [FENCED, "~~~\na[1]\n~~~", "`a[1]`"])
def test_brackets_in_code_are_not_citations(code: str) -> None:
    assert linked(code, {1: cite()}) == code
    assert plain(answer(code, cite())).startswith(code)


# --- Its parts ---------------------------------------------------------------------------------


def test_text_is_let_through_in_whole_blocks() -> None:
    blocks = BlockBuffer()
    assert blocks.add("First para", []) == []
    assert blocks.add("graph.\n\nSecond", []) == ["First paragraph."]
    assert blocks.add(" one.", []) == []
    assert blocks.rest() == ["Second one."]
    assert blocks.rest() == []


def test_a_fenced_block_is_never_cut() -> None:
    blocks = BlockBuffer()
    assert blocks.add("Look:\n\n```\na\n\nb", []) == ["Look:"]
    assert blocks.add("\n```\n\nDone.", []) == ["```\na\n\nb\n```"]
    assert blocks.rest() == ["Done."]


def test_a_citation_known_from_an_earlier_piece_is_linked() -> None:
    blocks = BlockBuffer()
    blocks.add("One.", [cite(1)])
    blocks.add(" Two [1].", [])
    assert blocks.rest() == [
        "One. Two [Ch. 3 · Communication patterns](<https://example.org/ros2#1>)."
    ]


def test_a_marker_that_stands_for_nothing_is_not_shown() -> None:
    assert linked("Typed [7].", {1: cite()}) == "Typed ."


def test_brackets_in_a_heading_do_not_break_its_link() -> None:
    assert linked("[1]", {1: cite(section="Lists [ ]")}) == (
        "[Ch. 3 · Lists ( )](<https://example.org/ros2#1>)"
    )


def test_a_chapter_without_a_number_is_called_by_its_title() -> None:
    assert source_line(cite(chapter=None)).plain == "1. ROS 2 — Communication patterns"


def test_a_long_passage_is_shortened_to_a_line() -> None:
    assert shortened("two\n lines") == "two lines"
    assert shortened("a" * 300) == "a" * 199 + "…"
