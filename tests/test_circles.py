"""docs/circles finds circles between the modules of a Rust crate, and no others."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def circles(folder: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (folder / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "src" / name).write_text(text)
    done = subprocess.run([ROOT / "docs/circles", folder], capture_output=True, text=True, check=False)
    assert done.returncode == int(bool(done.stdout)), done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "user",
    [
        "use crate::b::B;",
        "use crate::{b::{B as C}, d};",
        "use crate::B;",
        "fn f() { super::b::g(); }",
    ],
)
def test_a_circle_is_found(tmp_path: Path, user: str) -> None:
    files = {
        "lib.rs": "mod a;\nmod b;\nmod d;\npub use b::B;",
        "a.rs": user,
        "b.rs": "use super::a::A;",
        "d.rs": "",
    }
    assert "circle of 2 modules\n  a → b\n  b → a\n" in circles(tmp_path, files)


def test_a_circle_of_folders_is_found(tmp_path: Path) -> None:
    files = {
        "lib.rs": "mod a;\nmod b;",
        "a/mod.rs": "mod low;\nmod high;",
        "a/low.rs": "",
        "a/high.rs": "use crate::b::B;",
        "b.rs": "use crate::a::low::L;",
    }
    assert "circle of 2 modules\n  a → b\n  b → a\n" in circles(tmp_path, files)


def test_facades_tests_and_comments_are_no_circle(tmp_path: Path) -> None:
    files = {
        "lib.rs": "mod a;\npub use a::low::L;",
        "a/mod.rs": "pub mod low;\nmod high;\npub use low::L;",
        "a/low.rs": """
            // crate::a::high::H
            const TEXT: &str = "crate::a::high::H";
            #[cfg(test)]
            mod tests { use super::super::high::*; }
        """,
        "a/high.rs": "use super::L;",
    }
    assert circles(tmp_path, files) == ""
