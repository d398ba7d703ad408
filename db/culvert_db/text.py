"""Comparison and search of texts that do not depend on the database's collation."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Text, literal
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

# In the C locale, lower() knows only ASCII. These collations know all letters: Postgres 17's, ICU's, the C library's.
_COLLATIONS = ("pg_c_utf8", "und-x-icu", "C.utf8", "C.UTF-8")
_FOUND = """
SELECT collname FROM pg_collation WHERE collname IN ({}) AND collnamespace = 'pg_catalog'::regnamespace
""".format(", ".join(f"'{name}'" for name in _COLLATIONS))
# Attribute of an engine's dialect.
_COLLATION = "culvert_collation"


class _Folded(FunctionElement[str]):
    type = Text()
    inherit_cache = True


@compiles(_Folded)
def _lower(element: _Folded, compiler: SQLCompiler, **options: Any) -> str:
    folded = compiler.process(element.clauses, **options)
    collation = getattr(compiler.dialect, _COLLATION, "")
    return f'lower({folded} COLLATE "{collation}")' if collation else f"lower({folded})"


def contains(column: Any, part: str) -> ColumnElement[bool]:
    """Whether the text contains the part, ignoring case."""
    escaped = part.replace("/", "//").replace("%", "/%").replace("_", "/_")
    return _Folded(column).like(_Folded(literal(f"%{escaped}%", Text())), escape="/")


def folded(column: Any) -> ColumnElement[str]:
    """The text in lower case, which is how people expect a list of names to be sorted."""
    return _Folded(column)


def by_code_point(column: Any) -> Any:
    """A sort key: the column; for texts, with the collation C, which every database has."""
    return column.collate("C") if isinstance(column.type, Text) else column


def learn_collation(connection: DBAPIConnection, dialect: object) -> None:
    cursor = connection.cursor()
    cursor.execute(_FOUND)
    found = {name for (name,) in cursor.fetchall()}
    cursor.close()
    connection.rollback()
    setattr(dialect, _COLLATION, next((name for name in _COLLATIONS if name in found), ""))
