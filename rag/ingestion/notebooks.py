"""A Jupyter notebook as one Markdown text: its cells in order, their outputs cut short."""

import re
from typing import Any, cast

import nbformat
from nbformat.reader import NotJSONError, reads

from rag.ingestion.blocks import listing

OUTPUT_LINES = 8
OUTPUT_LINE_CHARACTERS = 200
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_DATA_IMAGE = re.compile(r"!\[([^\]]*)\]\((?:data|attachment):[^)]*\)")
_DATA_URI = re.compile(r"data:[\w/+.-]+;base64,[A-Za-z0-9+/=]+")
# Cells that are there for the grader or hidden from the page.
_HIDDEN_TAGS = {"remove-cell", "remove_cell", "hide-cell"}


class UnreadableNotebook(Exception):
    """It is no notebook that nbformat knows; the message is a reason to show."""


def notebook_markdown(text: str) -> str:
    """Cells of every known notebook version, without their images."""
    try:
        notebook: Any = nbformat.convert(reads(text), 4)
    except (NotJSONError, nbformat.ValidationError, ValueError) as error:
        raise UnreadableNotebook("it is not a valid notebook") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise UnreadableNotebook("its notebook has cells that cannot be read") from error
    language = _language(notebook)
    cells = cast(list[dict[str, Any]], notebook.get("cells", []))
    return "\n\n".join(filter(None, (_cell(cell, language) for cell in cells)))


def _language(notebook: Any) -> str:
    metadata = notebook.get("metadata", {})
    kernel = metadata.get("kernelspec", {}).get("language")
    return str(kernel or metadata.get("language_info", {}).get("name") or "python").lower()


def _cell(cell: dict[str, Any], language: str) -> str:
    source = _joined(cell.get("source", ""))
    if _HIDDEN_TAGS & set(cell.get("metadata", {}).get("tags", [])):
        return ""
    if cell.get("cell_type") == "markdown":
        return _DATA_URI.sub("", _DATA_IMAGE.sub(r"\1", source)).strip()
    if cell.get("cell_type") == "raw" and source.startswith("---\n"):
        return source.strip()  # front matter, as Quarto keeps it
    if cell.get("cell_type") != "code":
        return ""
    code = listing(_without_magic_cell(source), language).text
    outputs = [_output(output) for output in cell.get("outputs", [])]
    return "\n\n".join(filter(None, [code, *outputs])) if code else ""


def _without_magic_cell(source: str) -> str:
    """`%%capture` and its like address the notebook, not the reader."""
    return re.sub(r"\A\s*%%(?:capture|time|timeit|html)\b[^\n]*\n", "", source)


def _output(output: dict[str, Any]) -> str:
    kind = output.get("output_type")
    if kind == "stream":
        text = _joined(output.get("text", "")) if output.get("name") != "stderr" else ""
    elif kind == "error":
        text = f"{output.get('ename', '')}: {output.get('evalue', '')}"
    else:
        text = _joined(output.get("data", {}).get("text/plain", ""))
    return listing(_trimmed(text), "text").text


def _trimmed(text: str) -> str:
    """A few lines; an object's address or an image's size says nothing."""
    text = _DATA_URI.sub("", _ANSI.sub("", text)).strip("\n")
    if re.fullmatch(r"<[^\n]*>", text.strip()):
        return ""
    lines = text.split("\n")
    shown = [line[:OUTPUT_LINE_CHARACTERS] for line in lines[:OUTPUT_LINES]]
    return "\n".join([*shown, "…"] if len(lines) > OUTPUT_LINES else shown)


def _joined(text: str | list[str]) -> str:
    return "".join(text) if isinstance(text, list) else str(text)
