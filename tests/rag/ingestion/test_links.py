import pytest

from rag.ingestion.links import (
    UrlStyle,
    anchors,
    github_slug,
    mdbook_slug,
    page_path,
    page_url,
    section_url,
    sphinx_slug,
    split_heading_id,
    strip_number_prefix,
)


@pytest.mark.parametrize(
    ("heading", "github", "mdbook", "sphinx"),
    [
        ("Topics: publish and subscribe", *["topics-publish-and-subscribe"] * 3),
        ("What Is Ownership?", *["what-is-ownership"] * 3),
        ("Using Box<T> on the Heap", *["using-boxt-on-the-heap"] * 2, "using-box-t-on-the-heap"),
        ("The should_panic", *["the-should_panic"] * 2, "the-should-panic"),
        ("C++ & Rust", "c--rust", "c--rust", "c-rust"),
        ("3.2 Patterns", "32-patterns", "32-patterns", "patterns"),
        ("Über uns", "über-uns", "Über-uns", "uber-uns"),
        ("🚀 Challenge", "-challenge", "-challenge", "challenge"),
        ("Déjà vu", "déjà-vu", "déjà-vu", "deja-vu"),
    ],
)  # fmt: skip
def test_slugs_follow_each_generator(heading: str, github: str, mdbook: str, sphinx: str) -> None:
    assert github_slug(heading) == github
    assert mdbook_slug(heading) == mdbook
    assert sphinx_slug(heading) == sphinx


@pytest.mark.parametrize(
    ("headings", "style", "expected"),
    [
        (["Setup", "Setup", "Setup"], "docusaurus", ["setup", "setup-1", "setup-2"]),
        (["Setup", "Setup 1", "Setup"], "docusaurus", ["setup", "setup-1", "setup-2"]),
        (["Setup", "Setup"], "mdbook", ["setup", "setup-1"]),
        (["Setup", "Setup", "Setup"], "sphinx", ["setup", "id1", "id2"]),
        (["你好", "Setup"], "sphinx", ["id1", "setup"]),
        (["Setup {#start}", "Start"], "docusaurus", ["start", "start-1"]),
        (["Setup {#a.b:c}"], "plain", ["a.b:c"]),
        ([], "plain", []),
    ],
)
def test_repeated_headings_get_distinct_anchors(
    headings: list[str], style: UrlStyle, expected: list[str]
) -> None:
    assert anchors(headings, style) == expected


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Setup {#start}", ("Setup", "start")),
        ("Setup", ("Setup", None)),
        ("Sets {1, 2}", ("Sets {1, 2}", None)),
        ("Setup { #start .wide data-toc='x' }", ("Setup", "start")),
        ("Setup {.unnumbered}", ("Setup", None)),
        ("The class {Arm}", ("The class {Arm}", None)),
    ],
)
def test_a_heading_may_name_its_own_anchor(heading: str, expected: tuple[str, str | None]) -> None:
    assert split_heading_id(heading) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("01-intro", "intro"),
        ("003 - intro", "intro"),
        ("1.intro", "intro"),
        ("2024-01-15-news", "2024-01-15-news"),
        ("8.0-notes", "8.0-notes"),
        ("intro", "intro"),
        ("42", "42"),
    ],
)
def test_number_prefixes_are_dropped_but_dates_and_versions_stay(name: str, expected: str) -> None:
    assert strip_number_prefix(name) == expected


@pytest.mark.parametrize(
    ("file", "style", "slug", "doc_id", "expected"),
    [
        ("01-ros2/02-topics.md", "docusaurus", None, None, "ros2/topics"),
        ("01-ros2/README.md", "docusaurus", None, None, "ros2/"),
        ("01-ros2/index.mdx", "docusaurus", None, None, "ros2/"),
        ("ros2/ros2.md", "docusaurus", None, None, "ros2/"),
        ("index.md", "docusaurus", None, None, ""),
        ("01-ros2/02-topics.md", "docusaurus", "/start", None, "start"),
        ("01-ros2/02-topics.md", "docusaurus", "start", None, "ros2/start"),
        ("01-ros2/02-topics.md", "docusaurus", "/", None, ""),
        ("01-ros2/02-topics.md", "docusaurus", None, "my-topics", "ros2/my-topics"),
        ("src/ch01-00-x.md", "mdbook", None, None, "src/ch01-00-x.html"),
        ("README.md", "mdbook", None, None, "index.html"),
        ("guide/README.md", "mdbook", None, None, "guide/index.html"),
        ("guide/intro.rst", "sphinx", None, None, "guide/intro.html"),
        ("01-ros2/02-topics.md", "plain", "/ignored", None, "01-ros2/02-topics.md"),
    ],
)
def test_page_paths_follow_each_generator(
    file: str, style: UrlStyle, slug: str | None, doc_id: str | None, expected: str
) -> None:
    assert page_path(file, style, slug, doc_id) == expected


@pytest.mark.parametrize(
    ("base_url", "expected"),
    [
        ("https://example.org/docs/", "https://example.org/docs/ros2/topics"),
        ("https://example.org/docs", "https://example.org/docs/ros2/topics"),
        (None, "/read/robotics/01-ros2/02-topics.md"),
    ],
)
def test_a_page_lies_on_the_site_or_in_our_reader(base_url: str | None, expected: str) -> None:
    url = page_url("robotics", "01-ros2/02-topics.md", base_url=base_url, style="docusaurus")
    assert url == expected


@pytest.mark.parametrize(
    ("file", "site_root", "expected"),
    [
        ("src/ch01.md", "src", "ch01.html"),
        ("src/guide/README.md", "src", "guide/index.html"),
        ("srcs/ch01.md", "src", "srcs/ch01.html"),
        ("ch01.md", "", "ch01.html"),
    ],
)
def test_the_folder_of_the_sources_is_no_part_of_the_address(
    file: str, site_root: str, expected: str
) -> None:
    url = page_url("c", file, base_url="https://x.org", style="mdbook", site_root=site_root)
    assert url == f"https://x.org/{expected}"


def test_addresses_are_quoted() -> None:
    page = page_url("c", "a b/ü#1.md", base_url=None, style="plain")
    assert page == "/read/c/a%20b/%C3%BC%231.md"
    assert section_url(page, "über-uns") == f"{page}#%C3%BCber-uns"
    assert section_url(page, "") == page
