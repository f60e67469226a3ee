"""Each check by itself: what it catches, and what it must leave alone."""

import pytest

from rag.contradiction import contradiction
from rag.figures import Figure, figures_of
from rag.verification import (
    Check,
    Claim,
    Evidence,
    added_detail,
    changed_copy,
    closest_windows,
    contradicted,
    coverage,
    fault_of,
    fault_of_lead,
    misplaced_number,
    misquoted,
    unknown_number,
    unknown_term,
    words_in_one_place,
)

PASSAGE = """\
The default profile is reliable, volatile, keep-last with a depth of 10. The sensor data profile is
best effort with a depth of 5, because a fresh image is worth more than a late one. A publisher does
not know who is listening. First clear the costmap, then try the recoveries.

- **Reliability**: `reliable` retransmits lost samples.
- The step must stay at 0.001 s or 0.002 s; the sample uses 20 Hz to 30 Hz.

```bash
ros2 topic info /scan --verbose
```

Set `RMW_IMPLEMENTATION` to `rmw_cyclonedds_cpp`. Nav2 runs on Jazzy. In _nav2.yaml_ write
`max_speed: 0.5` or start with `mode="slow"`."""
EVIDENCE = Evidence(PASSAGE, "ROS 2 > Quality of Service (QoS)", "Which QoS does Gazebo use?")


def fault(check: Check, text: str, *quotes: str) -> str | None:
    return check(Claim(text, quotes), EVIDENCE)


# --- Quoted words ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "quote",
    [
        "keep-last with a depth of 10",
        "The  default PROFILE is reliable",
        "“reliable” retransmits lost samples.",
        "Reliability: reliable retransmits",
        "A publisher does not know … try the recoveries",
        "worth more than a late one. A publisher does\nnot know",
    ],
)
def test_words_of_the_passage_may_be_quoted(quote: str) -> None:
    assert fault(misquoted, "Yes.", quote) is None


@pytest.mark.parametrize(
    "quote", ["a depth of 20", "keep-last ... keep-first", "reliable volatile"]
)
def test_invented_support_is_caught(quote: str) -> None:
    assert fault(misquoted, "Yes.", quote) == f'the passage does not say "{quote}"'


# --- Numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("20 Hz", {Figure("20", "hz")}),
        ("1,000 steps", {Figure("1000")}),
        ("0.50 m", {Figure("0.5", "m")}),
        ("1 or 2 milliseconds", {Figure("1", "ms"), Figure("2", "ms")}),
        ("three parts", {Figure("3")}),
        ("Ubuntu 22.04", {Figure("22.04")}),
        ("50 %", {Figure("50", "%")}),
        ("ROS2 and Nav2", set[Figure]()),
        ("one part", set[Figure]()),
    ],
)
def test_numbers_are_read_with_their_units(text: str, figures: set[Figure]) -> None:
    assert figures_of(text) == figures


@pytest.mark.parametrize(
    "text",
    [
        "The depth is 10.",
        "The depth is ten.",
        "The step is 1 ms.",
        "It stays at 1 or 2 milliseconds.",
        "It runs at 20 to 30 hertz.",
        "3. The depth is 5.",
    ],
)
def test_numbers_of_the_passage_stand(text: str) -> None:
    assert fault(unknown_number, text) is None


@pytest.mark.parametrize(
    "text", ["The depth is 11.", "It takes 20 ms.", "It takes 10 seconds and 7 steps.", "3 ms"]
)
def test_numbers_from_elsewhere_are_caught(text: str) -> None:
    assert fault(unknown_number, text)


def test_a_number_of_another_sentence_is_caught() -> None:
    assert fault(misplaced_number, "The sensor data profile is best effort with a depth of 10.")
    assert fault(misplaced_number, "The sensor data profile has a depth of 5.") is None


# --- Names and terms ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Nav2 needs `RMW_IMPLEMENTATION`.",
        "Run `ros2 topic info /scan --verbose`.",
        "The QoS of Gazebo is reliable.",
        "In ROS 2 and ROS2 alike.",
        "Publishers on Jazzy are reliable.",
        "Cyclone is set with `rmw_cyclonedds_cpp`.",
        "```bash\nros2 topic info /scan --verbose  # a comment of ours\n```",
        "Look at the topic:\n\n```bash\nros2 topic info /scan\n```",
        "The file is `nav2.yaml`.",
        "Write `max_speed:0.5` or `mode='slow'`.",
    ],
)
def test_names_of_passage_headings_and_question_stand(text: str) -> None:
    assert fault(unknown_term, text) is None


@pytest.mark.parametrize(
    "text",
    [
        "It uses TCP.",
        "Set it with Kubernetes or Nav2.",
        "Run `ros2 topic info /scan --brief`.",
        "Run `ros2 scan info`.",
        "Set `RMW_DEFAULT`.",
        "Start with `mode=reliable`.",
        "Look at the topic:\n\n```bash\nros2 topic hz /scan\n```",
        "Set rmw_topic_cpp first.",
        "It runs on --verbose-all only.",
        "```bash\nros2 topic hz /scan\n```",
    ],
)
def test_names_from_elsewhere_are_caught(text: str) -> None:
    assert fault(unknown_term, text)


# --- The same matter, otherwise ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "clause"),
    [
        ("A publisher knows who listens.", "A publisher does not know who listens."),
        ("Start it after the simulator.", "Start it before the simulator."),
        ("Larger models are faster.", "Larger models are slower."),
        (
            "The server sends a request and the client returns a response.",
            "The client sends a request and the server returns a response.",
        ),
        (
            "A reliable publisher cannot serve a best-effort subscriber.",
            "A best-effort publisher cannot serve a reliable subscriber.",
        ),
        (
            "First try the recoveries, then clear the costmap.",
            "First clear the costmap, then try the recoveries.",
        ),
    ],
)
def test_the_opposite_is_caught(claim: str, clause: str) -> None:
    assert contradiction(claim, clause)


@pytest.mark.parametrize(
    ("claim", "clause"),
    [
        ("Quaternions have no jump.", "Quaternions avoid the jump."),
        ("No joint turns faster than 1 rad/s.", "Each joint is limited to 1 rad/s."),
        ("Plan for 32 GB or more.", "Plan for at least 32 GB."),
        ("Care robots are covered by ISO 13482.", "ISO 13482 covers care robots."),
        ("Use it without a GPU.", "It needs no GPU."),
    ],
)
def test_the_same_in_other_words_is_left_alone(claim: str, clause: str) -> None:
    assert contradiction(claim, clause) is None


def test_only_what_the_passage_says_of_the_same_matter_contradicts() -> None:
    assert fault(contradicted, "A publisher does know who is listening.")
    assert fault(contradicted, "A publisher is reliable by default.") is None


def test_a_copy_with_another_word_is_caught() -> None:
    assert fault(changed_copy, "`reliable` retransmits old samples.") == "the passage says lost"
    assert fault(changed_copy, "`reliable` retransmits lost samples.") is None
    assert fault(changed_copy, "What is lost is sent again if it is `reliable`.") is None


def test_an_addition_without_a_word_of_the_passage_is_caught() -> None:
    told = "The default profile is reliable"
    assert fault(added_detail, f"{told}, which astronauts appreciate.")
    assert fault(added_detail, f"{told}, volatile and keep-last.") is None
    assert fault(added_detail, "Astronauts appreciate it, whoever wrote that.") is None


# --- All together ------------------------------------------------------------------------------


def test_a_heading_is_only_checked_for_names_and_numbers() -> None:
    assert fault_of_lead(Claim("## The two profiles of Kubernetes"), EVIDENCE)
    assert fault_of_lead(Claim("A few words of introduction:"), EVIDENCE) is None


def test_code_is_checked_for_what_stands_in_it() -> None:
    assert fault_of(Claim("```\nros2 topic info /scan --verbose\n```"), EVIDENCE) is None
    assert fault_of(Claim("```\nsudo rm -rf /scan\n```"), EVIDENCE)


def test_coverage_is_the_share_of_known_words() -> None:
    assert coverage(Claim("A reliable publisher."), EVIDENCE) == 1.0
    assert coverage(Claim("A reliable astronaut."), EVIDENCE) == 0.5
    assert coverage(Claim("It is."), EVIDENCE) == 1.0


def test_words_gathered_from_all_over_are_not_in_one_place() -> None:
    said_so = Claim("A publisher does not know who is listening.")
    gathered = Claim("By default an image is listening to samples on Jazzy.")
    assert words_in_one_place(said_so, EVIDENCE) == 1.0
    assert coverage(gathered, EVIDENCE) == 1.0
    assert words_in_one_place(gathered, EVIDENCE) <= 0.4
    assert words_in_one_place(Claim("Quality of Service"), EVIDENCE) == 1.0  # says nothing new


def test_the_closest_windows_begin_with_what_is_quoted() -> None:
    windows = closest_windows(Claim("Who is listening?", ("does not know",)), EVIDENCE)
    assert windows[0] == "does not know"
    assert "A publisher does not know who is listening." in windows[1:]
