"""The tray's texts in the desktop's language: Qt's translations, `translations/LANGUAGE.ts`.

Qt Linguist's source files are read directly, without the compiled files of `lrelease`.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from culvert_proto.language import SOURCE, translates, use
from PyQt6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QTranslator

_CONTEXT = "culvert-tray"


def tr(text: str, /, **fields: object) -> str:
    """The text in the person's language, with `{field}` replaced."""
    said = QCoreApplication.translate(_CONTEXT, text)
    return said.format(**fields) if fields else said


def plural(one: str, many: str, number: int, /, **fields: object) -> str:
    """The plural form for `number`, which replaces `%n`. The text for `many` is the key of the translations."""
    said = QCoreApplication.translate(_CONTEXT, many if translates() or number != 1 else one, "", number)
    return said.format(**fields) if fields else said


def later(text: str) -> str:
    """Mark a text that `tr` translates when it is shown."""
    return text


def install(app: QCoreApplication, chosen: str = "") -> None:
    """Set the language of this process, of what is shown from now on. `chosen`: empty for the desktop's."""
    for installed in app.findChildren(QTranslator):
        app.removeTranslator(installed)
        installed.deleteLater()
    language = use([chosen] if chosen else QLocale.system().uiLanguages())
    if language == SOURCE:
        return
    qt = QTranslator(app)
    if qt.load(
        QLocale(language), "qtbase", "_", QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)
    ):
        app.installTranslator(qt)
    app.installTranslator(_Translations(app, language))


class _Translations(QTranslator):
    def __init__(self, app: QCoreApplication, language: str) -> None:
        super().__init__(app)
        self._forms = forms(language)

    def isEmpty(self) -> bool:  # noqa: N802  Qt's name
        return False

    def translate(  # pyright: ignore[reportIncompatibleMethodOverride]  None goes on to the next translator
        self,
        context: str | None,
        sourceText: str | None,  # noqa: N803  Qt's name
        disambiguation: str | None = None,
        n: int = -1,
    ) -> str | None:
        found = self._forms.get(sourceText or "") if context == _CONTEXT else None
        # In English and in German the singular is only for 1.
        return found[0 if n == 1 else -1] if found else None


def forms(language: str) -> dict[str, list[str]]:
    """Each text with its translations, one for each plural form."""
    tree = ET.parse(Path(__file__).parent / f"translations/{language}.ts")  # noqa: S314  it is ours
    return {
        message.findtext("source", ""): [it.text or "" for it in message.iter("numerusform")]
        or [message.findtext("translation", "")]
        for message in tree.iter("message")
    }
