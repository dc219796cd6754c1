"""What the documentation quotes exists: code samples are in the sources, links and make targets lead somewhere."""

import pathlib
import re

import pytest

pytestmark = pytest.mark.host_only
ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
QUOTE = re.compile(r"<!-- from (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
MAKE = re.compile(r"^\s*make ([a-z]+)", re.MULTILINE)


def squeezed(text):
    """Without the line breaks and indentation that a formatter may change."""
    return " ".join(text.split())


def test_quoted_code_is_in_the_sources():
    quotes = [(page, *quote) for page in PAGES for quote in QUOTE.findall(page.read_text())]
    assert quotes
    for page, source, code in quotes:
        assert squeezed(code) in squeezed((ROOT / source).read_text()), f"{page.name} quotes {source} wrongly"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_to_files(page):
    for link in LINK.findall(page.read_text()):
        assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_make_targets_that_pages_name_exist():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {t for page in PAGES for t in MAKE.findall(page.read_text())}
    assert {"setup", "demo"} <= named <= targets
