"""Words of ours in the fields of errors: sent with their structure, so that they are translated where they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from culvert_proto.gen.culvert.error.v1 import error_pb2
from culvert_proto.language import words


class Phrase(str):
    """An English text that knows its template and the template's fields, which are names or phrases again.

    `str` of a phrase, and of an exception that was made with one, is the phrase.
    """

    __slots__ = ("fields", "template")
    template: str
    fields: Mapping[str, str]

    def __new__(cls, template: str, /, **fields: object) -> Self:
        texts = {name: str(value) for name, value in fields.items()}
        return cls._make(template.format(**texts) if texts else template, template, texts)

    def spoken(self, text: str) -> Self:
        """The same phrase with a shorter English text than its template gives."""
        return self._make(text, self.template, self.fields)

    @classmethod
    def _make(cls, text: str, template: str, fields: Mapping[str, str]) -> Self:
        self = super().__new__(cls, text)
        self.template, self.fields = template, fields
        return self

    def __str__(self) -> str:
        return self

    def localise(self, language: str | None = None) -> str:
        """In the person's language; in English where a newer peer's template has no translation here."""
        translation = words(self.template, language) if self.template else self.template
        if translation == self.template:
            return self
        try:
            return translation.format(**localise_fields(self.fields, language))
        except (LookupError, ValueError):
            # A peer left out a field.
            return self

    def to_proto(self) -> error_pb2.Phrase:
        return error_pb2.Phrase(template=self.template, fields=self.fields, phrases=phrases(self.fields))


def localise_fields(fields: Mapping[str, str], language: str | None = None) -> dict[str, str]:
    """The fields with the phrases among them in the person's language."""
    return {name: it.localise(language) if isinstance(it, Phrase) else it for name, it in fields.items()}


def phrases(fields: Mapping[str, str]) -> dict[str, error_pb2.Phrase]:
    """The phrases among the fields, for a message that has the texts of all fields, too."""
    return {name: it.to_proto() for name, it in fields.items() if isinstance(it, Phrase)}


def receive_fields(fields: Mapping[str, str], phrases: Mapping[str, error_pb2.Phrase]) -> dict[str, str]:
    """The fields of a message; a previous version sends no phrases, and what it sends is shown in English."""
    return {name: _receive(text, phrases[name]) if name in phrases else text for name, text in fields.items()}


def _receive(text: str, phrase: error_pb2.Phrase) -> Phrase:
    return Phrase._make(text, phrase.template, receive_fields(phrase.fields, phrase.phrases))


DAYS = (
    Phrase("Monday"), Phrase("Tuesday"), Phrase("Wednesday"), Phrase("Thursday"), Phrase("Friday"), Phrase("Saturday"),
    Phrase("Sunday"),
)  # fmt: skip
MONTHS = (
    Phrase("January"), Phrase("February"), Phrase("March"), Phrase("April"), Phrase("May"), Phrase("June"),
    Phrase("July"), Phrase("August"), Phrase("September"), Phrase("October"), Phrase("November"), Phrase("December"),
)  # fmt: skip


def duration(seconds: float) -> str:
    """'3 d', '5 h 12 min', '12 min', '40 s': international symbols."""
    if seconds < 120:
        return f"{max(0, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes >= 48 * 60:
        return f"{round(minutes / 1440)} d"
    hours, minutes = divmod(minutes, 60)
    return " ".join(part for part in (f"{hours} h" * bool(hours), f"{minutes} min" * bool(minutes)) if part)
