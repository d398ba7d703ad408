"""Faults of documents are found before the site is built, and named with their place."""

from __future__ import annotations

import re
from pathlib import Path

import code_blocks
import pytest
from command_pages import Command
from culvert_proto import Reason
from page_policy import finish
from reason_pages import write_reasons
from settings_pages import write_settings
from site_contents import ROOT, SiteError, read_contents
from site_sources import Sources

COMMANDS = {
    ("culvert",): Command(("culvert",), "", frozenset({"--socket", "--help"})),
    ("culvert", "open"): Command(("culvert", "open"), "", frozenset({"--json", "--help"})),
}


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("culvert open wiki --json", None),
        ("sudo culvert --socket /s open wiki; make docs", None),
        ("culvert open wiki --yaml", "`culvert open` has no option --yaml"),
        ("culvert opne wiki", "`culvert` has no command opne"),
        ("ls | culvert close", "`culvert` has no command close"),
        ("make everything", "`make everything`: the Makefile has no such target"),
        ("make docs    builds it all", None),
    ],
)
def test_a_command_that_no_program_has_is_a_fault(code: str, fault: str | None) -> None:
    found = list(code_blocks._judge("sh", code, COMMANDS, {"docs"}))
    assert found == ([] if fault is None else [fault])


@pytest.mark.parametrize(
    ("language", "code"), [("python", "def f(:"), ("json", "{,}"), ("toml", "a ="), ("sh", "if")]
)
def test_code_that_does_not_parse_is_a_fault(language: str, code: str) -> None:
    assert list(code_blocks._judge(language, code, {}, set()))


def test_blocks_and_code_in_sentences_are_found_with_their_lines() -> None:
    text = "Say `a b`.\n\n    c\n    d\n\n```sh\ne\n```\n- x\n    no code\n"
    assert list(code_blocks.find_code(text)) == [(1, "span", "a b"), (3, "", "c\nd"), (7, "sh", "e")]


def test_links_of_the_repository_become_links_of_the_site(tmp_path: Path) -> None:
    sources = Sources(
        tmp_path / "pages", {"docs/index.md": "index.md", "service/README.md": "parts/service.md"}, tmp_path
    )
    sources.add("docs/index.md")
    text = (tmp_path / "pages/index.md").read_text()
    assert "](images/click.svg)" in text
    assert (tmp_path / "pages/images/click.svg").is_file()
    assert (
        sources._link("docs/index.md", "", "s", "../service/README.md#run-it")
        == "[s](parts/service.md#run-it)"
    )
    assert sources._link("service/README.md", "", "i", "../docs/index.md") == "[i](../index.md)"
    assert sources._link("docs/index.md", "", "`Makefile`", "../Makefile") == "`Makefile`"
    with pytest.raises(SiteError, match=r"there is no docs/nothing\.md"):
        sources._link("docs/index.md", "", "n", "nothing.md")


def test_each_reason_and_each_setting_has_its_place() -> None:
    pages = dict(write_reasons())
    listed = pages["reasons/index.md"]
    for reason in Reason:
        assert f"[{reason.name}]({reason.name}.md)" in listed
        page = pages[f"reasons/{reason.name}.md"]
        assert "## What to do" in page
        # People read examples, and no placeholders.
        assert not re.search(r"\{\w+\}", page)
    denied = pages["reasons/NO_POLICY.md"]
    assert "No policy lets *‹person›* reach *‹name›*." in denied
    assert "Ask *‹owner›*, who owns it." in denied
    assert "| *‹person›* | the person | `user` |" in denied
    assert "*Access check* shows the decision" in denied
    assert "Access check" not in pages["reasons/CSR_INVALID.md"]
    settings = dict(write_settings())
    assert "## database_url\n\n`CULVERT_DATABASE_URL` · no default" in settings["settings/controller.md"]
    assert "## udp_port\n\n`--udp-port` · default: `4500`" in settings["settings/culvertd.md"]


@pytest.mark.parametrize(
    "page",
    [
        '<p style="color:red">',
        "<style>p{}</style>",
        '<a onclick="x()">',
        '<img src="https://e.example/i">',
        "<script id=x>1</script>",
    ],
)
def test_a_page_that_the_policy_would_break_is_refused(page: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(page)
    with pytest.raises(SiteError, match=r"index\.html"):
        finish(tmp_path)


def test_every_page_of_the_documents_is_in_the_contents() -> None:
    named = {page.source for section in read_contents() for page in section.pages}
    pages = {str(it.relative_to(ROOT)) for it in (ROOT / "docs").glob("*.md")}
    assert pages - named == {"docs/index.md"}


def test_a_state_diagram_is_a_table_where_no_code_may_draw_it(tmp_path: Path) -> None:
    sources = Sources(tmp_path / "pages", {"client/README.md": "parts/client.md"}, tmp_path)
    sources.add("client/README.md")
    page = (tmp_path / "pages/parts/client.md").read_text()
    assert "mermaid" not in page
    assert "\n| Closed | Demand | Opening |\n" in page
    assert "\n## Run it\n" in page
