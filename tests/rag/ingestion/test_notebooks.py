import json
from typing import Any

import pytest

from rag.ingestion.notebooks import OUTPUT_LINES, UnreadableNotebook, notebook_markdown


def notebook(*cells: dict[str, Any], **metadata: Any) -> str:
    document = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": list(cells)}
    return json.dumps(document)


def text_cell(*lines: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": list(lines)}


def code_cell(source: str, *outputs: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "metadata": metadata,
        "source": source,
        "execution_count": None,
        "outputs": list(outputs),
    }


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def result(**data: str) -> dict[str, Any]:
    named = {name.replace("_", "/", 1): value for name, value in data.items()}
    return {"output_type": "display_data", "metadata": {}, "data": named}


def test_cells_stand_in_order_with_their_language() -> None:
    cells = [text_cell("# Title\n", "Text."), code_cell("x <- 1"), text_cell("More.")]
    made = notebook(*cells, kernelspec={"name": "ir", "language": "R"})
    assert notebook_markdown(made) == "# Title\nText.\n\n```r\nx <- 1\n```\n\nMore."


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (stream("hello\n"), "\n\n```text\nhello\n```"),
        (stream("a warning", name="stderr"), ""),
        (result(text_plain="42", image_png="iVBORw0KGgo="), "\n\n```text\n42\n```"),
        (result(text_plain="<Figure size 640x480 with 1 Axes>", image_png="iVBO"), ""),
        (result(text_html="<b>42</b>"), ""),
        (stream("\x1b[31mred\x1b[0m"), "\n\n```text\nred\n```"),
        (
            {"output_type": "error", "ename": "NameError", "evalue": "no x", "traceback": ["…"]},
            "\n\n```text\nNameError: no x\n```",
        ),
    ],
)
def test_outputs_are_shown_without_images_and_noise(output: dict[str, Any], shown: str) -> None:
    assert notebook_markdown(notebook(code_cell("x", output))) == f"```python\nx\n```{shown}"


def test_long_outputs_are_cut() -> None:
    lines = "\n".join(f"{n} " + "y" * 500 for n in range(100))
    shown = notebook_markdown(notebook(code_cell("x", stream(lines)))).split("```text\n")[1]
    assert shown.count("\n") == OUTPUT_LINES + 1
    assert "…\n```" in shown
    assert max(len(line) for line in shown.split("\n")) <= 200


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (text_cell("![a plot](data:image/png;base64,iVBORw0KGgo=)"), "a plot"),
        (text_cell("![a plot](attachment:image.png)"), "a plot"),
        (text_cell('<img src="data:image/png;base64,iVBORw0KGgo=">'), '<img src="">'),
        ({"cell_type": "raw", "metadata": {}, "source": "raw"}, ""),
        (
            {"cell_type": "raw", "metadata": {}, "source": "---\nlesson: 2\n---"},
            "---\nlesson: 2\n---",
        ),
        (code_cell("  "), ""),
        (code_cell("secret = 1", tags=["remove-cell"]), ""),
        (code_cell("%%time\nx = 1"), "```python\nx = 1\n```"),
    ],
)
def test_what_is_not_for_the_reader_is_left_out(cell: dict[str, Any], expected: str) -> None:
    assert notebook_markdown(notebook(cell)) == expected


def test_old_notebooks_are_understood() -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "metadata": {}, "source": "Old"},
        {
            "cell_type": "code",
            "input": "x = 1",
            "language": "python",
            "outputs": [],
            "metadata": {},
        },
    ]
    old = {
        "nbformat": 3,
        "nbformat_minor": 0,
        "metadata": {"name": ""},
        "worksheets": [{"cells": cells}],
    }
    assert notebook_markdown(json.dumps(old)) == "## Old\n\n```python\nx = 1\n```"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "no json", '{"nbformat": 99, "cells": 1}', '{"nbformat": 4, "cells": [1]}'],
)
def test_what_is_no_notebook_says_so(text: str) -> None:
    with pytest.raises(UnreadableNotebook, match="notebook"):
        notebook_markdown(text)
