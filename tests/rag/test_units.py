"""An answer is cut into what is checked one by one, however it arrives."""

import pytest

from rag.units import Unit, UnitCutter, is_lead


def cut(*pieces: str) -> list[Unit]:
    cutter = UnitCutter()
    units = [unit for piece in pieces for unit in cutter.feed(piece)]
    return units + cutter.finish()


@pytest.mark.parametrize(
    ("written", "units"),
    [
        ("One. Two.", ["One.", "Two."]),
        ("One [1]. Two [2].", ["One [1].", "Two [2]."]),
        ('One. [1|"a. B"] Two. [2]', ['One. [1|"a. B"]', "Two. [2]"]),
        ("One [1|“first. Second”]. Two.", ["One [1|“first. Second”].", "Two."]),
        ("Version 22.04 is new. Use it.", ["Version 22.04 is new.", "Use it."]),
        ("Sensors, e.g. LiDAR, help. Yes.", ["Sensors, e.g. LiDAR, help.", "Yes."]),
        ("Run `a. B` now. `x` is next.", ["Run `a. B` now.", "`x` is next."]),
        ('He said "stop." Then it stopped.', ['He said "stop."', "Then it stopped."]),
        ("A line\nthat goes on. End.", ["A line that goes on.", "End."]),
        (
            "Steps:\n1. Start it.\n2. Stop it. Wait.",
            ["Steps:", "1. Start it.", "2. Stop it. Wait."],
        ),
        ("- one\n- two\n\nDone.", ["- one", "- two", "Done."]),
        ("# Title\nText.", ["# Title", "Text."]),
        ("Run:\n```bash\nls\n\ncd /\n```\nDone.", ["Run:", "```bash\nls\n\ncd /\n```", "Done."]),
        ("~~~\na\n~~~", ["~~~\na\n~~~"]),
        ("```\nnever closed", ["```\nnever closed\n```"]),
        ("| a | b |\n|---|---|\n| 1 | 2 |\nDone.", ["| a | b |\n|---|---|\n| 1 | 2 |", "Done."]),
        ("", []),
        ("\n\n", []),
        ("no full stop", ["no full stop"]),
    ],
)
def test_units_of_a_text(written: str, units: list[str]) -> None:
    assert [unit.text for unit in cut(written)] == units


def test_the_gaps_keep_the_layout() -> None:
    units = cut("One. Two.\n\nThree.\n- a\n- b\n\n```\nc\n```\nFour.")
    assert [unit.gap for unit in units] == ["", " ", "\n\n", "\n", "\n", "\n\n", "\n\n"]


LONG = (
    'Topics are typed [2|"one. Type"]. They have names.\nThis goes\non. `x.Y` is code.\n\n'
    "Steps:\n\n1. Start. Wait [1].\n2. Stop.\n\n```python\na = 1\n\nb = 2\n```\n\n"
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n## Title\n**Bold** words. 3 m is far. The end. [3]"
)


@pytest.mark.parametrize("cut_at", range(len(LONG)))
def test_a_stream_may_be_cut_anywhere(cut_at: int) -> None:
    assert cut(LONG[:cut_at], LONG[cut_at:]) == cut(LONG)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_the_cuts_of_a_stream_change_nothing(size: int) -> None:
    pieces = [LONG[start : start + size] for start in range(0, len(LONG), size)]
    assert cut(*pieces) == cut(LONG)


def test_a_sentence_is_whole_as_soon_as_the_next_begins() -> None:
    cutter = UnitCutter()
    assert cutter.feed("A topic is typed [1]. ") == []
    assert [unit.text for unit in cutter.feed("It")] == ["A topic is typed [1]."]


@pytest.mark.parametrize("text", ["## Title", "Run this:", "**Steps**", "Yes.", "Sure!"])
def test_a_lead_says_nothing_by_itself(text: str) -> None:
    assert is_lead(text)


@pytest.mark.parametrize("text", ["A topic is typed.", "1. Start it.", "**Bold** words follow."])
def test_a_sentence_is_no_lead(text: str) -> None:
    assert not is_lead(text)
