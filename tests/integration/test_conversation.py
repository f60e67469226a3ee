"""A whole conversation over two lessons of the sample course, as a student would have it."""

import shutil
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from bot.app import Core, open_core
from bot.service import CourseBot
from bot.settings import SAMPLE_COURSE, Settings
from rag.errors import CourseError
from rag.prompts import ONLY_QUOTES, REFUSAL, THANKS_REPLY
from rag.types import AgentResponse, Done, Question
from tests.bot.small_course import ingest


@pytest.fixture
async def core(tmp_path: Path, no_settings: pytest.MonkeyPatch) -> AsyncGenerator[Core]:
    """Footnote without any account, with the course's first chapter."""
    no_settings.setenv("FOOTNOTE_DATA_DIR", str(tmp_path / "data"))
    course = tmp_path / "course"
    shutil.copytree(SAMPLE_COURSE / "01-ros2", course / "01-ros2")
    shutil.copy(SAMPLE_COURSE / "course.toml", course)
    async with open_core(Settings()) as core:
        await ingest(core, course)
        yield core


class Student:
    """Asks one question after another in one thread."""

    def __init__(self, bot: CourseBot) -> None:
        self._bot = bot
        self._asked = 0

    async def asks(self, text: str, course: str | None = None) -> AgentResponse:
        self._asked += 1
        question = Question(
            text=text,
            course=course,
            conversation_key="slack:T1:C1:100.1",
            message_id=f"m{self._asked}",
        )
        events = [event async for event in self._bot.answer(question)]
        assert isinstance(events[-1], Done)
        return events[-1].response


async def test_twelve_turns_with_follow_ups_and_a_change_of_subject(core: Core) -> None:
    student = Student(core.bot)
    assert "A node is a single participant" in (await student.asks("What is a node?")).content
    assert "A topic is a named channel" in (await student.asks("What is a topic?")).content
    assert "two-way call" in (await student.asks("And what is a service?")).content
    assert "ros2 service call" in (await student.asks("How do I call one?")).content
    assert (await student.asks("thanks!")).content == THANKS_REPLY
    profile = await student.asks("What is the default QoS profile?")
    assert "depth of 10" in profile.content
    again = await student.asks("Explain that more simply")
    assert again.notice == ONLY_QUOTES
    assert set(again.cited_chunk_ids) <= set(profile.cited_chunk_ids)
    assert "depth of 5" in (await student.asks("And the sensor data profile?")).content
    changed = await student.asks("What is URDF?")
    assert "XML format" in changed.content
    assert "check_urdf" in (await student.asks("How do I check that such a file is valid?")).content
    refused = await student.asks("Who won the football world cup in 1998?")
    assert (refused.content, refused.refused_by) == (REFUSAL, "gate")
    assert "Chapter 1: Robot Operating System 2" in (await student.asks("What can you do?")).content

    conversation = await core.conversations.load("slack:T1:C1:100.1")
    assert conversation is not None
    assert (conversation.turn_count, len(conversation.messages)) == (12, 24)
    assert "Quality of Service (QoS)" in conversation.topic_summary
    # Small talk, help and the same in other words cost no search.
    searched = [call.query for call in conversation.retrieval_history]
    assert not {"thanks!", "Explain that more simply", "What can you do?"} & set(searched)


async def test_a_course_without_an_index_is_one_clear_sentence(core: Core) -> None:
    with pytest.raises(CourseError, match='There is no course "chess"'):
        await Student(core.bot).asks("What is a rook?", course="chess")
