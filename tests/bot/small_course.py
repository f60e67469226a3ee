"""A course of two short lessons: quick to read in, and enough to answer from and to refuse."""

from pathlib import Path

from adapters.operations import IngestRequest
from bot.app import Core

COURSE_TOML = """\
id = "radio"
title = "Amateur Radio"
base_url = "https://radio.example.edu"

[chapters]
1 = "On the air"
"""
ANTENNAS = """\
---
title: Antennas
chapter: 1
lesson: 1
---
# Antennas

## The half-wave dipole

A half-wave dipole is a straight wire antenna that is cut in the middle and fed there with a coaxial
cable. Its length is about half the wavelength of the frequency it is made for. A dipole for the
twenty metre band is therefore about ten metres long.

## Standing wave ratio

The standing wave ratio compares the largest with the smallest voltage along the feed line. A ratio
of one means that the antenna takes all the power; above three, most transmitters reduce theirs.
"""
PROCEDURE = """\
---
title: Calling procedure
chapter: 1
lesson: 2
---
# Calling procedure

## Calling CQ

CQ is a general call to any station. Listen first, ask whether the frequency is in use, then call CQ
three times followed by your own call sign, and listen again for an answer.

## Signal reports

A signal report is given as readability, strength and tone. Readability runs from one to five,
strength and tone from one to nine.
"""


def write_course(folder: Path, course_id: str = "radio") -> Path:
    folder.mkdir(parents=True)
    (folder / "course.toml").write_text(COURSE_TOML.replace('"radio"', f'"{course_id}"'))
    (folder / "01-antennas.md").write_text(ANTENNAS)
    (folder / "02-procedure.md").write_text(PROCEDURE)
    return folder


async def ingest(core: Core, folder: Path) -> None:
    """Brings a course folder in, to the end."""
    async for _ in core.ingestions.run(IngestRequest(path=folder)):
        pass
