"""Texts of others without characters that change how the text around them is shown. Pure.

A name may hold U+202E, after which a screen writes from the right: "photo\u202egpj.exe" is read as "photoexe.jpg". In a
terminal, ESC begins a command. Each such character is shown as U+FFFD, so that a person sees that something was there.
"""

from __future__ import annotations

import re
from typing import TypeVar, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

# Controls but for tab and line feed; marks, embeddings, overrides and isolates of direction (UAX 9); separators of lines
# and paragraphs; characters without a width that split or join words; tags.
_STRANGE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)

AnyMessage = TypeVar("AnyMessage", bound=Message)


def make_plain(text: str) -> str:
    return text if text.isascii() and text.isprintable() else _STRANGE.sub("\ufffd", text)


def make_all_plain(message: AnyMessage) -> AnyMessage:
    """The message, with each text in it made plain in place."""
    for field, value in message.ListFields():
        if _is_map(field):
            _clean_map(field, value)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for one in value if field.is_repeated else [value]:
                make_all_plain(one)
        elif field.type == FieldDescriptor.TYPE_STRING:
            if field.is_repeated:
                value[:] = [make_plain(it) for it in value]
            else:
                setattr(message, field.name, make_plain(value))
    return message


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _clean_map(field: FieldDescriptor, value: object) -> None:
    entry = cast("Descriptor", field.message_type).fields_by_name["value"]
    entries = cast("dict[str, object]", value)
    for key, one in list(entries.items()):
        if isinstance(one, Message):
            make_all_plain(one)
        elif entry.type == FieldDescriptor.TYPE_STRING:
            entries[key] = make_plain(str(one))
