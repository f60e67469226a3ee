"""Rendering: what a student reads, within each platform's limits, without calling anyone."""

import re
from typing import Any

import pytest
from inline_snapshot import snapshot

from adapters.delivery import Draft, Reply
from adapters.render import (
    DISCORD_MESSAGE_LIMIT,
    NO_BREAK,
    SLACK_MESSAGE_LIMIT,
    SLACK_SECTION_LIMIT,
    discord_messages,
    discord_sections,
    slack_messages,
    slack_sections,
)
from rag.types import AgentResponse, Citation, ConfidenceMetrics, SearchResult
from tests.factories import make_chunk


def citation(n: int = 1, **fields: Any) -> Citation:
    known: dict[str, Any] = {
        "n": n,
        "page_title": "Nodes and topics",
        "chapter_title": "ROS 2",
        "chapter": 3,
        "section": "Communication patterns",
        "url": "https://x.org/3#a",
        "module": "ros2",
        "chunk_id": "c",
        "chunk_text": "Topics carry typed messages.",
        "similarity": 0.7,
    }
    return Citation(**(known | fields))


def answer(content: str, *citations: Citation, **fields: Any) -> AgentResponse:
    return AgentResponse(content=content, kind="answer", citations=list(citations), **fields)


def chat(content: str) -> AgentResponse:
    return AgentResponse(content=content, kind="chat")


def slack(reply: Reply, links: bool = True) -> str:
    [message] = slack_messages(reply, links)
    return message.text


def discord(reply: Reply, links: bool = True) -> str:
    [message] = discord_messages(reply, links)
    return message


SERVICES = citation(2, section="Services", url="https://x.org/3#b")
EVERYTHING = """\
# Topics and **services**

Topics carry *typed* messages [1].

A service **answers** [2].

- a publisher
  - a subscriber
- ~~a node~~

3. third
4. fourth

> Quoted,
> twice.

| Name | Kind |
|------|------|
| `/scan` | topic [1] |
| add | service |

```python
x = a[1]  # & <b>
```

Euler: $e^{i\\pi}$ and `inline[2]`. See [the site](https://ros.org/a_b) or https://ros.org/x_y.
"""


# --- Whole replies -------------------------------------------------------------------------------


def test_slack_answer():
    reply = answer(EVERYTHING, citation(), SERVICES, notice="The book says little about this.")
    assert slack(reply) == snapshot("""\
*Topics and services*

Topics carry _typed_ messages (<https://x.org/3#a|Ch. 3 · Communication patterns>).

A service *answers* (<https://x.org/3#b|Ch. 3 · Services>).

• a publisher
    • a subscriber
• ~a node~

3. third
4. fourth

> Quoted, twice.

```
Name   Kind
-----  --------------------------------------
/scan  topic (Ch. 3 · Communication patterns)
add    service
```

```
x = a[1]  # &amp; &lt;b&gt;
```

Euler: `e^{i\\pi}` and `inline[2]`. See <https://ros.org/a_b|the site> or <https://ros.org/x_y>.

_The book says little about this._

*Sources:*
1. <https://x.org/3#a|Chapter 3: ROS 2 — Communication patterns>
2. <https://x.org/3#b|Chapter 3: ROS 2 — Services>\
""")


def test_discord_answer():
    reply = answer(EVERYTHING, citation(), SERVICES, notice="The book says little about this.")
    assert discord(reply) == snapshot("""\
# Topics and services

Topics carry *typed* messages ([Ch. 3 · Communication patterns](<https://x.org/3#a>)).

A service **answers** ([Ch. 3 · Services](<https://x.org/3#b>)).

- a publisher
  - a subscriber
- ~~a node~~

3. third
4. fourth

> Quoted, twice.

```
Name   Kind
-----  --------------------------------------
/scan  topic (Ch. 3 · Communication patterns)
add    service
```

```python
x = a[1]  # & <b>
```

Euler: `e^{i\\pi}` and `inline[2]`. See [the site](<https://ros.org/a_b>) or <https://ros.org/x_y>.

*The book says little about this.*

**Sources:**
1. [Chapter 3: ROS 2 — Communication patterns](<https://x.org/3#a>)
2. [Chapter 3: ROS 2 — Services](<https://x.org/3#b>)\
""")


def test_without_public_address_citations_are_text():
    reply = answer("Topics carry messages [1].", citation(url="/read/robotics/03.md#patterns"))
    assert slack(reply) == snapshot("""\
Topics carry messages (Ch. 3 · Communication patterns).

*Sources:*
1. Chapter 3: ROS 2 — Communication patterns\
""")
    assert discord(reply) == slack(reply).replace("*Sources:*", "**Sources:**")


def test_links_can_be_switched_off():
    reply = answer("Topics carry messages [1].", citation())
    assert "https" not in slack(reply, links=False) + discord(reply, links=False)


def test_refusal_names_the_closest_sections():
    reply = AgentResponse(
        content="I could not find this in the book.",
        kind="refusal",
        refused_by="gate",
        closest=[citation(), SERVICES],
        metrics=ConfidenceMetrics(),
    )
    assert slack(reply) == snapshot("""\
I could not find this in the book.

*Closest sections:*
1. <https://x.org/3#a|Chapter 3: ROS 2 — Communication patterns>
2. <https://x.org/3#b|Chapter 3: ROS 2 — Services>\
""")
    assert discord(reply) == snapshot("""\
I could not find this in the book.

**Closest sections:**
1. [Chapter 3: ROS 2 — Communication patterns](<https://x.org/3#a>)
2. [Chapter 3: ROS 2 — Services](<https://x.org/3#b>)\
""")


def test_chat_is_only_its_content():
    reply = AgentResponse(content="Hello! Ask me.", kind="chat", citations=[citation()])
    assert slack(reply) == discord(reply) == "Hello! Ask me."


@pytest.mark.parametrize(
    ("draft", "expected"),
    [
        (Draft(), "_Searching the book…_"),
        (Draft(state="RETRIEVING"), "_Searching the book…_"),
        (Draft(state="GENERATING"), "_Writing…_"),
        (Draft(state="GENERATING", text="Topics carry"), "Topics carry\n\n_Writing…_"),
        (Draft(state="GENERATING", text="Topics carry [1"), "Topics carry\n\n_Writing…_"),
        (Draft(state="GENERATING", text='Topics [1|"ty'), "Topics\n\n_Writing…_"),
        (
            Draft(state="GENERATING", text="Topics [1].", citations=[citation(url="/read/x")]),
            "Topics (Ch. 3 · Communication patterns).\n\n_Writing…_",
        ),
        (
            Draft(state="GENERATING", text="So:\n```python\nx = 1"),
            "So:\n\n```\nx = 1\n```\n\n_Writing…_",
        ),
    ],
)
def test_drafts_say_that_more_comes(draft: Draft, expected: str):
    assert slack(draft) == expected


def test_slack_blocks_say_what_the_text_says():
    [message] = slack_messages(answer("Topics [1].", citation()), links=True)
    assert message.blocks == [
        {"type": "section", "text": {"type": "mrkdwn", "text": message.text, "verbatim": True}}
    ]


def test_sections_of_a_lookup():
    chunk = make_chunk(chapter=3, chapter_declared=True, url="https://x.org/3")
    found = [SearchResult.of(chunk, score=0.5, similarity=0.5, rank=1)]
    assert slack_sections(found, links=True)[0].text == snapshot("""\
1. <https://x.org/3|Chapter 3: ROS 2 — Nodes and topics>
Nodes exchange typed messages.\
""")
    assert discord_sections(found, links=True) == snapshot(
        [
            """\
1. [Chapter 3: ROS 2 — Nodes and topics](<https://x.org/3>)
Nodes exchange typed messages.\
"""
        ]
    )


def test_a_lookup_shows_the_beginning_of_a_section():
    chunk = make_chunk("Nodes exchange " + "typed " * 60 + "messages.")
    found = [SearchResult.of(chunk, score=0.5, similarity=0.5, rank=1)]
    _title, excerpt = discord_sections(found, links=True)[0].split("\n")
    assert excerpt.startswith("Nodes exchange typed")
    assert excerpt.endswith("typed…")
    assert len(excerpt) <= 161


def test_a_lookup_that_finds_nothing_says_so():
    assert slack_sections([], links=True)[0].text == discord_sections([], links=True)[0]
    assert discord_sections([], links=True) == ["Nothing in the book fits these words."]


# --- Citations -----------------------------------------------------------------------------------

SHORT = citation(chapter=None, chapter_title="ROS", section="ROS", url="/x")
OTHER = citation(2, chapter=None, chapter_title="DDS", section="DDS", url="/y")


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("A [1].", "A (ROS)."),
        ("A[1].", "A (ROS)."),
        ("A. [1]", "A. (ROS)"),
        ("A [1][1].", "A (ROS)."),
        ("A [1] [1] [1].", "A (ROS)."),
        ("A [1][2].", "A (ROS; DDS)."),
        ("A [1, 2].", "A (ROS; DDS)."),
        ("A [1][2][1].", "A (ROS; DDS)."),
        ("A [7].", "A."),
        ("A [7][1].", "A (ROS)."),
        ('A [1|"the words"].', "A (ROS)."),
        ('A [1|"a[0] = 3 | 4"].', "A (ROS)."),
        ("A **b [1]**.", "A *b (ROS)*."),
        ("`a[1]`", "`a[1]`"),
        ("`a[7]` [7]", "`a[7]`"),
        ("```\na[1]\n```", "```\na[1]\n```"),
        ("    a[1]", "```\na[1]\n```"),
        (r"\[1]", "[1]"),
        ("a[0]", "a[0]"),
        ("[1]: https://evil.example/", "(ROS): <https://evil.example/>"),
        ("[1] first", "(ROS) first"),
        ("**A** [1].", "*A* (ROS)."),
        ("`a` [7].", "`a`."),
    ],
)
def test_markers(content: str, shown: str):
    assert slack(answer(content, SHORT, OTHER)).split("\n\n*Sources:*")[0] == shown


def test_an_answer_of_unknown_markers_is_not_empty():
    assert slack(answer("[7]")) == discord(answer("[7]")) == "…"


def test_a_source_is_listed_once():
    twice = answer("A [1]. B [2].", citation(1), citation(2))
    assert slack(twice).count("Chapter 3") == 1


# --- Nothing calls anyone ------------------------------------------------------------------------

SLACK_PING = re.compile(r"<[!@#]|@(channel|here|everyone)", re.IGNORECASE)
DISCORD_PING = re.compile(r"@(everyone|here)|<@[!&]?\d+>", re.IGNORECASE)
PINGS = [
    "<!channel>",
    "<!here|here>",
    "<!everyone>",
    "<@U012AB3CD>",
    "<#C012AB3CD|general>",
    "<!subteam^S123|@staff>",
    "@everyone",
    "@here",
    "@channel",
    "@Everyone",
    "<@123456789012345678>",
    "<@!123456789012345678>",
    "<@&123456789012345678>",
    "&lt;!channel&gt;",
    "&#60;!channel&#62;",
    "&#64;everyone",
    "@[9]everyone",
    "@every[9]one",
    "@![](https://x.org/i.png)everyone",
    "x" * 249 + "@everyone",
    r"\<!channel\>",
    r"\@everyone",
]
CONTEXTS = [
    "{}",
    "# {}",
    "- {}",
    "> {}",
    "**{}**",
    "*{}*",
    "[{}](https://x.org)",
    "[x](https://x.org/{})",
    "https://x.org/{}",
    "![{}](https://x.org/i.png)",
    "| a |\n|---|\n| {} |",
    "`{}`",
    "```\n{}\n```",
    "${}$",
]


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("ping", PINGS)
def test_generated_text_pings_nobody(ping: str, context: str):
    reply = chat(context.format(ping))
    in_code = re.sub(r"```.*?```|`[^`]*`", "", slack(reply), flags=re.DOTALL)
    assert not SLACK_PING.search(in_code)
    assert not re.search(r"<[!@#]", slack(reply))
    assert not DISCORD_PING.search(discord(reply))


@pytest.mark.parametrize("ping", PINGS)
@pytest.mark.parametrize("field", ["section", "chapter_title", "url"])
def test_citations_ping_nobody(ping: str, field: str):
    value = f"https://x.org/{ping}" if field == "url" else ping
    reply = answer("A [1].", citation(1, **{field: value}), notice=f"Hm {ping}")
    assert not SLACK_PING.search(slack(reply))
    assert not DISCORD_PING.search(discord(reply))


# --- Nothing breaks out --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "slack_label", "discord_label"),
    [
        ("a|b", "a/b", "a/b"),
        ("a>b<c", "a&gt;b&lt;c", r"a\>b\<c"),
        ("a](http://evil)", "a)(http://evil)", "a)(http://evil)"),
        ("R&D", "R&amp;D", "R&D"),
        ("`rclpy`\nbasics", "rclpy basics", "rclpy basics"),
        ("*star* __x__", "*star* __x__", r"\*star\* \_\_x\_\_"),
    ],
)
def test_labels_stay_inside_their_link(section: str, slack_label: str, discord_label: str):
    reply = answer("A [1].", citation(section=section))
    url = "https://x.org/3#a"
    assert f"(<{url}|Ch. 3 · {slack_label}>)" in slack(reply)
    assert f"([Ch. 3 · {discord_label}](<{url}>))" in discord(reply)


def test_addresses_stay_inside_their_link():
    reply = answer("A [1].", citation(url="https://x.org/a b>|(c)?d=1&e=2"))
    assert "(<https://x.org/a%20b%3E%7C%28c%29?d=1&amp;e=2|Ch. 3" in slack(reply)
    assert "(<https://x.org/a%20b%3E%7C%28c%29?d=1&e=2>))" in discord(reply)


@pytest.mark.parametrize(
    ("markdown", "for_slack", "for_discord"),
    [
        ("2*3*4 and 2**3**4", "2*3*4 and 2**3**4", r"2\*3\*4 and 2\*\*3\*\*4"),
        ("snake_case_name", "snake_case_name", r"snake\_case\_name"),
        ("a & b < c", "a &amp; b &lt; c", r"a & b \< c"),
        (r"\# no heading", "# no heading", r"\# no heading"),
        ("***both***", "_*both*_", "***both***"),
        ("## `code` **b**", "*`code` b*", "## `code` b"),
        ("##### deep", "*deep*", "### deep"),
        ("costs $5 and $10", "costs $5 and $10", "costs $5 and $10"),
        ("$$\nx_1 * y\n$$", "```\nx_1 * y\n```", "```\nx_1 * y\n```"),
        ("``a`b``", "`aˋb`", "`` a`b ``"),
        ("<b>html</b>", "&lt;b&gt;html&lt;/b&gt;", r"\<b\>html\</b\>"),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        ("[x](/relative)", "x", "x"),
        ("![a robot](https://x.org/i.png)", "<https://x.org/i.png|a robot>", None),
        ("one\ntwo  \nthree", "one two\nthree", "one two\nthree"),
        ("- a\n\n  ```py\n  x\n  ```\n- b", "• a\n```\nx\n```\n• b", "- a\n```py\nx\n```\n- b"),
        ("````\n```\n````", f"```\n``{NO_BREAK}`\n```", f"```\n``{NO_BREAK}`\n```"),
        ("a ```b", "a ˋˋˋb", r"a \`\`\`b"),
        ("> a\n>\n> b", "> a\n> b", "> a\n> b"),
    ],
)
def test_markdown(markdown: str, for_slack: str, for_discord: str | None):
    assert slack(chat(markdown)) == for_slack
    if for_discord is not None:
        assert discord(chat(markdown)) == for_discord


def test_wide_characters_keep_a_table_aligned():
    table = discord(chat("| a | b |\n|---|---|\n| 世界 | x |\n| y | z |"))
    assert table.split("\n")[1:-1] == ["a     b", "----  -", "世界  x", "y     z"]


# --- Limits --------------------------------------------------------------------------------------

CODE = "\n".join(f"line_{number} = {number}" for number in range(400))
ROWS = "\n".join(f"| row {number} | {'cell ' * 5}|" for number in range(120))
LONG = {
    "paragraph": "Nodes & topics. " * 500,
    "paragraphs": "Nodes & topics exchange messages.\n\n" * 200,
    "one word": "&" * 9_000,
    "astral word": "🤖" * 5_000,
    "code": f"Before.\n\n```python\n{CODE}\n```\n\nAfter.",
    "one line of code": f"```\n{'<x>' * 3_000}\n```",
    "table": f"| a | b |\n|---|---|\n{ROWS}",
    "emphasis": f"**{'strong words ' * 400}**",
    "heading": f"# {'A very long title ' * 300}",
    "list": "\n".join(f"- item {number} with *some* `words`" for number in range(300)),
    "quote": "\n".join(f"> line {number} with some words" for number in range(300)),
    "inline code": f"`{'a&b ' * 2_000}`",
    "links": "[label](https://x.org/page) " * 400,
    "long link": f"[label](https://x.org/{'p' * 5_000})",
    "long address": f"See https://x.org/{'&p=' * 3_000} there.",
    "citations": "Nodes talk [1]. " * 400,
    "mixed": (EVERYTHING + "\n\n") * 20,
}


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def bare(text: str) -> str:
    """The words alone, to see that none was lost."""
    unescaped = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return re.sub(rf"```(?:python|py)?\n|```|[\s\\`*_>•{NO_BREAK}-]", "", unescaped)


@pytest.mark.parametrize("name", LONG)
def test_long_answers_fit_slack(name: str):
    messages = slack_messages(answer(LONG[name], citation()), links=True)
    for message in messages:
        assert 0 < units(message.text) <= SLACK_MESSAGE_LIMIT
        assert message.text.count("```") % 2 == 0
        assert message.blocks
        for block in message.blocks:
            assert 0 < units(block["text"]["text"]) <= SLACK_SECTION_LIMIT
            assert block["text"]["text"].count("```") % 2 == 0
        assert not re.search(r"&(?!amp;|lt;|gt;)", message.text)


@pytest.mark.parametrize("name", LONG)
def test_long_answers_fit_discord(name: str):
    for message in discord_messages(answer(LONG[name], citation()), links=True):
        assert 0 < units(message) <= DISCORD_MESSAGE_LIMIT
        assert message.count("```") % 2 == 0
        assert re.sub(r"```.*?```", "", message, flags=re.DOTALL).count("**") % 2 == 0


PLAIN_TEXTS = [
    name
    for name in LONG
    if name not in ("links", "long link", "long address", "citations", "mixed")
]


@pytest.mark.parametrize("name", PLAIN_TEXTS)
def test_splitting_loses_nothing(name: str):
    content = LONG[name]
    source = re.sub(r"[|#]|-{3,}", "", content)
    on_slack = "".join(message.text for message in slack_messages(chat(content), True))
    on_discord = "".join(discord_messages(chat(content), True))
    assert bare(on_slack) == bare(source)
    assert re.sub(r"[#]", "", bare(on_discord)) == bare(source)


def test_a_long_fence_is_opened_again_with_its_language():
    messages = discord_messages(chat(LONG["code"]), links=True)
    assert len(messages) > 2
    fenced = [message for message in messages if "line_" in message]
    assert all("```python\n" in message for message in fenced)


def test_a_fence_that_fits_is_never_split():
    code = "\n".join(f"x = {number}" for number in range(120))
    messages = discord_messages(chat(f"{'Word. ' * 200}\n\n```py\n{code}\n```\n\nEnd."), links=True)
    assert [message.count("```py") for message in messages] == [0, 1]
    assert messages[1] == f"```py\n{code}\n```\n\nEnd."


def test_a_table_that_fits_is_never_split():
    rows = "\n".join(f"| row {number} | cell |" for number in range(60))
    messages = discord_messages(chat(f"{'Word. ' * 250}\n\n| a | b |\n|---|---|\n{rows}"), True)
    assert [message.count("```") for message in messages] == [0, 2]


def test_growing_text_never_changes_what_is_full():
    """While an answer is written, only its last two messages are edited."""
    text = ("Nodes exchange typed messages over topics. " * 20 + "\n\n") * 10
    before: list[str] = []
    for end in range(0, len(text), 37):
        after = discord_messages(Draft(state="GENERATING", text=text[:end]), links=True)
        full = max(0, len(before) - 2)
        assert after[:full] == before[:full]
        before = after
