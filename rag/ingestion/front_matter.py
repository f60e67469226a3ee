"""What a page says about itself above its text, in YAML, TOML or JSON. No I/O here."""

import json
import re
import tomllib
from datetime import UTC, date, datetime
from typing import Annotated, Any, cast

import yaml
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, ValidationError

from rag.types import HardwareTier, Moment, ProficiencyLevel, TeachingLayer

_YAML = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S | re.M)
_TOML = re.compile(r"\A\+\+\+[ \t]*\n(.*?)^\+\+\+[ \t]*(?:\n|\Z)", re.S | re.M)
_FIELDS = re.compile(r"\A\s*(?::[\w-]+:(?=\s|\Z)[^\n]*(?:\n|\Z))+(?=\n|\Z)")
_JSON = re.compile(r"\A(?:;;;[ \t]*\n)?(?=\{\s*\")")


class BadFrontMatter(Exception):
    """A field of ours is wrong, or the whole cannot be parsed; the message is the reason."""


def _upper(value: object) -> object:
    return value.strip().upper() if isinstance(value, str) else value


def _number(value: object) -> object:
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else value


def _text(value: object) -> object:
    return str(value) if isinstance(value, int | float | date) else value


def _site_text(value: object) -> object:
    """Fields that other tools use too: what is no text there is not meant for us."""
    text = _text(value)
    return text if isinstance(text, str) else None


def _moment(value: object) -> object:
    """YAML reads `2026-02-01` as a day, which begins at midnight UTC."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, str):
        return _moment(datetime.fromisoformat(value))
    return value


_Text = Annotated[str | None, BeforeValidator(_text)]
_SiteText = Annotated[str | None, BeforeValidator(_site_text)]
_Number = Annotated[int | None, Field(ge=0), BeforeValidator(_number)]


class FrontMatter(BaseModel):
    """What a page says about itself; other fields are the site's business."""

    title: _SiteText = None
    module: _Text = None
    chapter: _Number = None
    lesson: _Number = None
    chapter_title: _Text = None
    hardware_tier: Annotated[HardwareTier, BeforeValidator(_number)] = 1
    proficiency_level: Annotated[ProficiencyLevel, BeforeValidator(_upper)] = "A2"
    layer: Annotated[TeachingLayer, BeforeValidator(_upper)] = "L1"
    available_from: Annotated[Moment | None, BeforeValidator(_moment)] = None
    assessment: bool = False
    slug: _SiteText = None
    doc_id: _SiteText = Field(default=None, validation_alias=AliasChoices("id", "doc_id"))


_OURS = set(FrontMatter.model_fields) - {"doc_id", "slug"}


def split_field_list(text: str) -> tuple[FrontMatter, str]:
    """reStructuredText says it in fields: `:available_from: 2026-02-01` above everything else."""
    match = _FIELDS.match(text)
    if match is None:
        return FrontMatter(), text
    fields = dict(re.findall(r"(?m)^:([\w-]+):[ \t]*(.*?)[ \t]*$", match[0]))
    ours = {name: value for name, value in fields.items() if name in _OURS and value}
    return _validated(ours), text[match.end() :]


def split_front_matter(text: str) -> tuple[FrontMatter, str]:
    """The fields and the text below them; a page without any has the default ones."""
    fields, body = _parsed(text)
    if fields is None:
        return FrontMatter(), body
    if isinstance(fields, str):  # a sentence between two rules
        return FrontMatter(), text
    if not isinstance(fields, dict):
        raise BadFrontMatter("its front matter is not a list of fields")
    given = {str(k): v for k, v in cast(dict[Any, Any], fields).items() if v is not None}
    return _validated(given), body


def _validated(fields: dict[str, Any]) -> FrontMatter:
    try:
        return FrontMatter.model_validate(fields)
    except ValidationError as error:
        raise BadFrontMatter(first_problem(error, "its front matter")) from error


def _parsed(text: str) -> tuple[Any, str]:
    if match := _YAML.match(text):
        return _loaded_yaml(match[1]), text[match.end() :]
    if match := _TOML.match(text):
        try:
            return tomllib.loads(match[1]), text[match.end() :]
        except tomllib.TOMLDecodeError as error:
            raise BadFrontMatter(f"its front matter is not valid TOML: {error}") from error
    if match := _JSON.match(text):
        return _json_opening(text, match.end())
    return None, text


def _loaded_yaml(source: str) -> Any:
    try:
        return yaml.safe_load(_quoted_tags(source))
    except (yaml.YAMLError, ValueError) as error:
        raise BadFrontMatter(f"its front matter is not valid YAML: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """What is wrong, and in which line of the file, without a drawing of it."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem and error.problem_mark:
        return f"{' '.join(error.problem.split())} (line {error.problem_mark.line + 2})"
    return " ".join(str(error).split())


def _quoted_tags(source: str) -> str:
    """`title: !expr …` and other tags belong to the site's builder: their text will do."""
    return re.sub(r"(?m)(:[ \t]+)![\w!:./-]+(?=[ \t]|$)", r"\1", source)


def _json_opening(text: str, start: int) -> tuple[Any, str]:
    try:
        fields, end = json.JSONDecoder().raw_decode(text, start)
    except ValueError:
        return None, text  # a page that happens to begin with a brace
    return fields, re.sub(r"\A\s*;;;[ \t]*", "", text[end:]).lstrip("\n")


def first_problem(error: ValidationError, where: str) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    message = first["msg"][:1].lower() + first["msg"][1:]
    if first["type"] == "missing":
        return f"{where} has no {name}"
    return f"{name} in {where} is {first['input']!r}: {message}"
