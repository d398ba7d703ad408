"""The one spelling of a name: what is stored and compared, and what a person reads."""

import subprocess
import sys

import pytest
from culvert_proto.dns_name import (
    NameInvalidError,
    canonical,
    is_wildcard,
    make_readable,
    normalise_search,
    parse,
    unicode,
    with_encoding,
)
from hypothesis import given
from hypothesis import strategies as st

BÜCHER = "xn--bcher-kva.corp.example"
SPELLINGS = [
    ("wiki.corp.example", "wiki.corp.example"),
    (" Wiki.Corp.Example. ", "wiki.corp.example"),
    ("bücher.corp.example", BÜCHER),
    ("BÜCHER.Corp.Example.", BÜCHER),
    ("XN--BCHER-KVA.corp.example", BÜCHER),
    # u and a combining diaeresis; full width; the full stop of Japanese keyboards.
    ("bu\u0308cher.corp.example", BÜCHER),
    ("ｂüｃｈｅｒ。corp．example", BÜCHER),
    # A soft hyphen is seen by nobody.
    ("bü\u00adcher.corp.example", BÜCHER),
    # IDNA 2008 keeps what IDNA 2003 folded.
    ("straße.corp.example", "xn--strae-oqa.corp.example"),
    ("strasse.corp.example", "strasse.corp.example"),
    ("ΒΌΛΟΣ.corp.example", "xn--nxasmq6b.corp.example"),
    ("βόλος.corp.example", "xn--nxasmm1c.corp.example"),
    # A joiner where the script needs it.
    ("نامه\u200cای.corp.example", "xn--mgba3gch31f060k.corp.example"),
    ("_sip._tcp.bücher.corp.example", f"_sip._tcp.{BÜCHER}"),
    ("r3--sn-4g5e.corp.example", "r3--sn-4g5e.corp.example"),
    ("corp", "corp"),
]


@pytest.mark.parametrize(("text", "name"), SPELLINGS)
def test_each_spelling_is_one_name(text: str, name: str) -> None:
    assert parse(text) == name
    assert canonical(text) == name
    assert parse(name) == name, "the canonical spelling is stable"


@pytest.mark.parametrize(("text", "name"), SPELLINGS)
def test_a_wildcard_keeps_its_star(text: str, name: str) -> None:
    starred = f"*.{text.strip()}"
    assert parse(starred, wildcard=True) == canonical(starred) == f"*.{name}"
    assert is_wildcard(canonical(starred))
    assert not is_wildcard(name)
    with pytest.raises(NameInvalidError, match="“\\*” \\(U\\+002A\\)"):
        parse(starred)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        (".", "is empty"),
        ("wiki..example", "is empty"),
        (".example", "is empty"),
        ("wiki.example..", "is empty"),
        ("\u00ad.example", "is empty"),
        (f"{'a' * 64}.example", "at most 63"),
        (f"{'ü' * 60}.example", "at most 63"),
        (".".join(["abcdefg"] * 33), "at most 253"),
        ("ü" * 2000, "at most 63"),
        ("-wiki.example", "begins and ends"),
        ("wiki-.example", "begins and ends"),
        ("-bücher.example", "begins and ends"),
        ("wi ki.example", "U+0020"),
        ("wi/ki.example", "“/” (U+002F)"),
        ("wiki.*.example", "“*”"),
        ("a\u2028b.example", "U+2028"),
        # Browsers go there, IDNA 2008 does not.
        ("😀.example", "“😀” (U+1F600)"),
        ("a\u200db.example", "U+200D cannot stand at this place"),
        ("\u0308bücher.example", "cannot stand at this place"),
        ("אb.example", "written from the right"),
        ("xn--bcher.example", "encoding of a valid name"),
        ("xn---bbk.example", "encoding of a valid name"),
        ("xn--.example", "begins and ends"),
    ],
)
def test_an_invalid_name_is_refused_with_the_cause(text: str, why: str) -> None:
    with pytest.raises(NameInvalidError) as refused:
        parse(text)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("wiki.corp.example", "wiki.corp.example"),
        (BÜCHER, "bücher.corp.example"),
        (f"*.{BÜCHER}", "*.bücher.corp.example"),
        (f"_sip._tcp.{BÜCHER}", "_sip._tcp.bücher.corp.example"),
        ("xn--strae-oqa.corp.example", "straße.corp.example"),
        # Other scripts could pass for Latin: the name in the DNS stands beside.
        ("xn--e1afmkfd.corp.example", "пример.corp.example (xn--e1afmkfd.corp.example)"),
        ("xn--eckwd4c7c.xn--zckzah", "ドメイン.テスト (xn--eckwd4c7c.xn--zckzah)"),
        # So does a Latin letter that looks like an ASCII one.
        (parse("wıki.example"), f"wıki.example ({parse('wıki.example')})"),
        # Cyrillic "а" among Latin letters.
        (parse("wikiа.example"), parse("wikiа.example")),
        # Not the encoding of a name.
        ("xn---bbk.example", "xn---bbk.example"),
        ("xn--bcher.example", "xn--bcher.example"),
    ],
)
def test_a_confusable_name_is_shown_with_its_encoding(name: str, seen: str) -> None:
    assert make_readable(name) == seen


def test_names_in_a_sentence_are_shown() -> None:
    said = f"{BÜCHER} is open through gw-berlin. See http://{BÜCHER}/ and fooxn--bcher-kva."
    assert make_readable(said) == (
        "bücher.corp.example is open through gw-berlin. See http://bücher.corp.example/ and fooxn--bcher-kva."
    )


def test_an_administrator_reads_the_name_in_the_dns_too() -> None:
    said = f"{BÜCHER} is below xn--e1afmkfd.corp.example in corp.example."
    assert with_encoding(said) == (
        f"bücher.corp.example ({BÜCHER}) is below пример.corp.example (xn--e1afmkfd.corp.example) in corp.example."
    )


def test_a_part_is_found_in_what_is_shown() -> None:
    for typed in ("BÜCH", "bu\u0308ch", " büch ", "Bücher.Corp.Example."):
        assert normalise_search(typed) in unicode(BÜCHER)


@given(st.text(st.characters(codec="utf-8"), max_size=80))
def test_each_text_is_a_canonical_name_or_refused(text: str) -> None:
    canonical(text)
    make_readable(text)
    normalise_search(text)
    try:
        name = parse(text, wildcard=True)
    except NameInvalidError:
        return
    assert name.isascii()
    assert not name.endswith(".")
    assert name == name.lower() == parse(name, wildcard=True) == canonical(name)
    # A name that is shown alone leads to itself when it is typed.
    if "(" not in make_readable(name):
        assert parse(make_readable(name), wildcard=True) == name


def test_the_tables_are_not_read_for_names_in_ascii() -> None:
    """The daemon is small, and most names are ASCII."""
    script = (
        "import sys; from culvert_proto import dns_name; dns_name.parse('Wiki.corp.example.');"
        "dns_name.make_readable('wiki.corp.example'); sys.exit('idna' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
