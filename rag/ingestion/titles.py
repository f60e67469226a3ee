"""A page's title from a glance at its text, without parsing it. No I/O here."""

import re

_RST_TITLE = re.compile(
    r"^(?P<text>\S[^\n]*)\n(?P<line>[=\-`:.'\"~^_*+#<>])(?P=line){2,}[ \t]*$", re.M
)
_MD_TITLE = re.compile(r"^(?:title:[ \t]*|#[ \t]+)[\"']?(?P<text>[^\n]+?)[\"'#]*[ \t]*$", re.M)
_MARKUP = re.compile(r"``|[`*]|\s*<[^>]*>`?_{0,2}|\s*\{#[^}]*\}|\[([^\]]*)\]\([^)]*\)")


def title_in(text: str, file: str) -> str:
    """Empty where none can be seen."""
    if file.endswith(".ipynb"):
        match = re.search(r'"#[ \t]+(?P<text>[^"\\]+)', text)
    else:
        match = (_RST_TITLE if file.lower().endswith(".rst") else _MD_TITLE).search(text)
    return _MARKUP.sub(r"\1", match["text"]).strip() if match else ""
