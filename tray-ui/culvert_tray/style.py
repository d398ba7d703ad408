"""The look of every window: the roles of docs/design.md as a palette and a style sheet on Qt's Fusion style.

It is the same on each desktop, which chooses the scale, and light or dark: that also while the tray runs.
"""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass
from enum import Enum
from pathlib import Path
from string import Template

from PyQt6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QIcon, QPalette
from PyQt6.QtWidgets import QApplication, QWidget

from culvert_tray.colour_scheme import ColourScheme
from culvert_tray.signals import connect

# Pixels before scaling, of what is painted; the style sheet has those of labels.
HEADING, BODY, NOTE = 14, 13.5, 12.5
_FAMILY = "Inter"
# The folder of Debian's fonts-inter, for a desktop whose fontconfig does not look there.
_FONTS = "/usr/share/fonts/opentype/inter"
_ICONS = Path(__file__).with_name("icons")
# These name plug-ins of the desktop's Qt, which ours cannot load or which look different.
_OTHER_QT = ("QT_PLUGIN_PATH", "QT_QPA_PLATFORM_PLUGIN_PATH", "QT_STYLE_OVERRIDE")
_WEIGHTS = ("Regular", "SemiBold")


class Tone(Enum):
    """The role of a mark's colour."""

    QUIET = "quiet"
    GOOD = "good"
    ATTENTION = "attention"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Colours:
    """One column of the table of roles."""

    ground: str
    surface: str
    line: str
    text: str
    note: str
    accent: str
    link: str
    hover: str
    good: str
    good_tint: str
    attention: str
    attention_tint: str
    bad: str
    bad_tint: str

    def mark(self, tone: Tone) -> tuple[QColor, QColor]:
        """Foreground and background."""
        match tone:
            case Tone.GOOD:
                pair = self.good, self.good_tint
            case Tone.ATTENTION:
                pair = self.attention, self.attention_tint
            case Tone.BAD:
                pair = self.bad, self.bad_tint
            case Tone.QUIET:
                pair = self.note, self.ground
        return QColor(pair[0]), QColor(pair[1])


LIGHT = Colours(
    "#f4f6f5", "#ffffff", "#dbe0dd", "#1a1f1c", "#5a635e", "#187a45", "#187a45", "#e9eeeb",
    "#116137", "#e7f5ed", "#7a4a00", "#fff3d9", "#b02525", "#fdeceb",
)  # fmt: skip
DARK = Colours(
    "#15181a", "#1d2124", "#343a3e", "#edf1ef", "#a3aca7", "#187a45", "#72c597", "#2a3033",
    "#8fd6ad", "#173524", "#f2c063", "#392c10", "#ff9c96", "#3d1d1c",
)  # fmt: skip


def colours() -> Colours:
    """Those of the application's palette, which `install_style` sets."""
    return DARK if QGuiApplication.palette().color(QPalette.ColorRole.Window).lightness() < 128 else LIGHT


def make_application(arguments: list[str]) -> QApplication:
    """The application with the plug-ins, styles and icons of its own Qt alone."""
    others = {name: os.environ.pop(name) for name in _OTHER_QT if name in os.environ}
    app = QApplication(arguments)
    # Programs that the tray starts, such as the browser, have the desktop's Qt.
    os.environ.update(others)
    # A name that no theme has.
    QIcon.setThemeName("culvert-tray")
    QIcon.setThemeSearchPaths([])  # pyright: ignore[reportUnknownMemberType]
    QIcon.setFallbackSearchPaths([])  # pyright: ignore[reportUnknownMemberType]
    return app


def install_style(app: QApplication) -> None:
    """Call it once, before the first widget."""
    app.setStyle("Fusion")
    if _FAMILY not in QFontDatabase.families():
        for weight in _WEIGHTS:
            QFontDatabase.addApplicationFont(f"{_FONTS}/{_FAMILY}-{weight}.otf")
    if (hints := app.styleHints()) is None:
        return

    scheme = ColourScheme(hints, app)

    def follow() -> None:
        chosen = DARK if scheme.is_dark else LIGHT
        app.setPalette(_palette(chosen))
        app.setStyleSheet(_sheet(chosen))

    app.setFont(font(BODY))
    follow()
    connect(scheme.changed, follow)


def without_markup(text: str) -> str:
    """The text for a place where Qt takes what looks like HTML for HTML."""
    return text.replace("<", "‹")


def font(pixels: float, *, strong: bool = False) -> QFont:
    found = QFont(_FAMILY if _FAMILY in QFontDatabase.families() else QFont().family())
    found.setPixelSize(round(pixels))
    found.setWeight(QFont.Weight.DemiBold if strong else QFont.Weight.Normal)
    return found


def set_role(widget: QWidget, role: str) -> None:
    """Give the widget a role of the style sheet: a text's, a button's or a card's."""
    widget.setProperty("role", role)
    if (style := widget.style()) is not None:
        style.unpolish(widget)
        style.polish(widget)


def _palette(chosen: Colours) -> QPalette:
    palette = QPalette()
    roles = QPalette.ColorRole
    for role, colour in (
        (roles.Window, chosen.ground), (roles.WindowText, chosen.text), (roles.Base, chosen.surface),
        (roles.AlternateBase, chosen.ground), (roles.Text, chosen.text), (roles.Button, chosen.surface),
        (roles.ButtonText, chosen.text), (roles.ToolTipBase, chosen.surface), (roles.ToolTipText, chosen.text),
        (roles.PlaceholderText, chosen.note), (roles.Link, chosen.link), (roles.Highlight, chosen.accent),
        (roles.HighlightedText, "#ffffff"), (roles.BrightText, chosen.bad), (roles.Light, chosen.surface),
        (roles.Midlight, chosen.hover), (roles.Mid, chosen.line), (roles.Dark, chosen.line),
    ):  # fmt: skip
        palette.setColor(role, QColor(colour))
    for role in (roles.WindowText, roles.Text, roles.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, role, QColor(chosen.note))
    return palette


def _sheet(chosen: Colours) -> str:
    fields = dict(zip(Colours.__slots__, astuple(chosen), strict=True))
    body = font(BODY)
    return Template(_SHEET).substitute(
        fields, icons=_ICONS.as_posix(), family=body.family(), body=body.pixelSize()
    )


# `$role` is a colour of `Colours`.
_SHEET = """
/* Themes of desktops have fonts of their own for labels, buttons and menus. */
QWidget { font-family: "$family"; font-size: ${body}px; }
QLabel { background: transparent; }
QLabel[role="title"] { font-size: 20px; font-weight: 600; }
QLabel[role="heading"] { font-size: 14px; font-weight: 600; }
QLabel[role="code"] { font-family: monospace; }
QLabel[role="note"] { font-size: 12.5px; color: $note; }
QLabel[role="slow"] { color: $attention; font-weight: 600; }
QLabel[role="failed"] { color: $bad; font-weight: 600; }
QFrame[role="card"] { background: $surface; border: 1px solid $line; border-radius: 10px; }
QFrame[role="attention"] { background: $attention_tint; border: none; border-radius: 8px; }
QFrame[role="attention"] QLabel { color: $attention; }
QFrame[role="bad"] { background: $bad_tint; border: none; border-radius: 8px; }
QFrame[role="bad"] QLabel { color: $bad; }

QPushButton {
  background: $surface; color: $text; border: 1px solid $line; border-radius: 7px;
  padding: 6px 14px; min-height: 18px; font-weight: 600;
}
QPushButton:hover { background: $hover; }
QPushButton:pressed { background: $line; }
QPushButton:focus { border: 2px solid $link; padding: 5px 13px; }
QPushButton:disabled { color: $note; background: $ground; }
QPushButton[role="primary"] { background: $accent; color: #ffffff; border: 1px solid $accent; }
QPushButton[role="primary"]:hover, QPushButton[role="primary"]:pressed { background: #116137; }
QPushButton[role="primary"]:focus { border: 2px solid $text; }
QPushButton[role="primary"]:disabled { background: $ground; color: $note; border-color: $line; }
QPushButton::menu-indicator { width: 10px; subcontrol-position: right center; right: 8px; }
QPushButton[role="menu"] { padding-left: 8px; padding-right: 18px; }

QLineEdit, QPlainTextEdit, QTextBrowser {
  background: $surface; color: $text; border: 1px solid $line; border-radius: 7px; padding: 6px 10px;
  selection-background-color: $accent; selection-color: #ffffff;
}
QLineEdit { min-height: 18px; }
QLineEdit:focus, QPlainTextEdit:focus, QTextBrowser:focus { border: 2px solid $link; padding: 5px 9px; }
QLineEdit[role="code"] { font-size: 22px; letter-spacing: 3px; }

QTabBar { qproperty-drawBase: 0; font-weight: 600; }
QTabBar::tab {
  background: transparent; color: $note; border: none; border-bottom: 2px solid transparent;
  padding: 8px 2px; margin-right: 22px;
}
QTabBar::tab:selected { color: $link; border-bottom: 2px solid $link; }
QTabBar::tab:hover:!selected { color: $text; }
QTabBar::tab:focus { color: $text; }
QTabWidget::pane { border: none; }

QListView { background: $surface; border: 1px solid $line; border-radius: 10px; padding: 4px; outline: none; }
QListView:focus { border: 1px solid $link; }
QScrollBar:vertical { background: transparent; width: 12px; margin: 2px; }
QScrollBar::handle:vertical { background: $line; border-radius: 4px; min-height: 32px; }
QScrollBar::handle:vertical:hover { background: $note; }
QScrollBar::add-line, QScrollBar::sub-line { height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QScrollArea { background: transparent; border: none; }
QScrollArea > QWidget > QWidget { background: transparent; }
QCheckBox { spacing: 10px; padding: 5px 0; }
QCheckBox::indicator { width: 16px; height: 16px; border: 1px solid $note; border-radius: 4px; background: $surface; }
QCheckBox::indicator:checked { background: $accent; border-color: $accent; image: url("$icons/check.svg"); }
QCheckBox::indicator:focus { border: 2px solid $link; }
QMenu { background: $surface; color: $text; border: 1px solid $line; padding: 5px; }
QMenu::item { padding: 6px 22px 6px 12px; border-radius: 5px; }
QMenu::item:selected { background: $hover; }
QMenu::item:disabled { color: $note; background: transparent; }
QMenu::separator { height: 1px; background: $line; margin: 5px 8px; }
QMenu::icon { padding-left: 8px; }
QToolTip { background: $surface; color: $text; border: 1px solid $line; padding: 5px; }
"""
