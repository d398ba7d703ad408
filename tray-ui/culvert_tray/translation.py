"""The tray's texts in the desktop's language: Qt's translations, `translations/LANGUAGE.ts`.

They are read as Qt Linguist writes them; `lrelease` would only make another copy of them.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from culvert_proto.language import SOURCE, translates, use
from PyQt6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QTranslator

_CONTEXT = "culvert-tray"


def tr(text: str, /, **fields: object) -> str:
    """In the person's language; `{field}` stands for a name."""
    said = QCoreApplication.translate(_CONTEXT, text)
    return said.format(**fields) if fields else said


def plural(one: str, many: str, number: int, /, **fields: object) -> str:
    """The form for `number`, which `%n` stands for. Translations belong to the text for `many`."""
    said = QCoreApplication.translate(_CONTEXT, many if translates() or number != 1 else one, "", number)
    return said.format(**fields) if fields else said


def later(text: str) -> str:
    """Marks a text that `tr` translates where it is shown."""
    return text


def install(app: QCoreApplication) -> None:
    """For this process, before anything is said."""
    language = use(QLocale.system().uiLanguages())
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
        # English and German alike: the singular is for one alone.
        return found[0 if n == 1 else -1] if found else None


def forms(language: str) -> dict[str, list[str]]:
    """Each text with its translation, or with one for each plural form."""
    tree = ET.parse(Path(__file__).parent / f"translations/{language}.ts")  # noqa: S314  it is ours
    return {
        message.findtext("source", ""): [it.text or "" for it in message.iter("numerusform")]
        or [message.findtext("translation", "")]
        for message in tree.iter("message")
    }
