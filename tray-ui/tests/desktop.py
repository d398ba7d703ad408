"""A small real desktop: Xvfb, a D-Bus session, the openbox window manager and a tint2 panel that hosts tray icons.

    with Desktop(directory) as desktop:
        subprocess.Popen([...], env=desktop.env)
        desktop.wait_for_tray_icon(); desktop.click_tray(button=3); desktop.screenshot(path)

Needs the programs in PROGRAMS. Stands alone: it knows nothing of Culvert.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Literal

PROGRAMS = ("Xvfb", "dbus-daemon", "openbox", "tint2", "xdotool", "import", "xprop", "xwininfo", "dbus-send")

_START_SECONDS = 30.0
# A line of `xwininfo -tree`: its size, and its place on the screen.
_NAMED_WINDOW = re.compile(
    r'"[^"]*": \("(?P<class>[^"]*)".*?(?P<width>\d+)x(?P<height>\d+)\S+  \+(?P<x>-?\d+)\+(?P<y>-?\d+)'
)
PANEL_HEIGHT = 32

Shade = Literal["light", "dark"]
_COLOURS: dict[Shade, str] = {"light": "#ececec", "dark": "#202326"}


class Desktop:
    """`panel` None leaves the tray host out, `managed` False the window manager. `env` is what a program here needs."""

    def __init__(
        self,
        directory: Path,
        *,
        width: int = 900,
        height: int = 560,
        panel: Shade | None = "light",
        managed: bool = True,
    ) -> None:
        self._directory = directory
        self._size = (width, height)
        self._panel: Shade | None = panel
        self._managed = managed
        self._processes: list[subprocess.Popen[bytes]] = []
        self.env: dict[str, str] = {}

    def __enter__(self) -> Desktop:
        missing = [program for program in PROGRAMS if shutil.which(program) is None]
        assert not missing, f"install {', '.join(missing)}"
        self._directory.mkdir(parents=True, exist_ok=True)
        runtime = self._directory / "runtime"
        runtime.mkdir(mode=0o700, exist_ok=True)
        # A home of its own: no setting of the person who runs the tests shows.
        self.env = {
            k: v for k, v in os.environ.items() if k in {"PATH", "PYTHONPATH", "LANG", "VIRTUAL_ENV"}
        } | {
            "HOME": str(self._directory),
            # D-Bus asks the user database, not HOME, where services are.
            "XDG_DATA_HOME": str(self._directory / ".local/share"),
            "XDG_RUNTIME_DIR": str(runtime),
            "XDG_SESSION_TYPE": "x11",
            "QT_QPA_PLATFORM": "xcb",
            "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1",
            "LC_ALL": "C.UTF-8",
        }
        try:
            self._start_display()
            # The first key changes the keyboard's map, and a window manager that sees it change lets go of its keys for a
            # moment.
            self.key("shift")
            self._start_bus()
            if self._managed:
                self._start_window_manager()
            if self._panel is not None:
                self.start_panel(self._panel)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            if process.poll() is None:
                process.kill()
                process.wait()
        self._processes.clear()

    def run(self, *command: str) -> str:
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=True, timeout=20)
        return done.stdout

    def _ask(self, *command: str) -> str:
        """The output of a command about windows, which fails when a window goes while it runs."""
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False, timeout=20)
        return done.stdout

    def screenshot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.run("import", "-window", "root", str(path))

    def picture(self, path: Path, margin: int = 16) -> None:
        """A screenshot of what is above the panel, and of the panel below it. `margin` in pixels."""
        self.screenshot(path)
        above = subprocess.run(
            ["convert", str(path), "-gravity", "South", "-chop", f"0x{PANEL_HEIGHT}", "-format", "%@", "info:"],
            env=self.env, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        _size, left, top = above.split("+")
        crop = f"+{left}+{top}"
        border = ("-bordercolor", "white", "-border", str(margin))
        self.run("mogrify", "-crop", crop, "+repage", "-trim", "+repage", *border, str(path))

    def key(self, *keys: str) -> None:
        for key in keys:
            self.run("xdotool", "key", key)
            time.sleep(0.1)

    def type(self, text: str) -> None:
        self.run("xdotool", "type", "--delay", "10", text)

    def windows(self) -> list[str]:
        """Titles of the windows that are shown."""
        # A window that goes while it is asked for its title is not shown.
        numbers = self._ask("xdotool", "search", "--onlyvisible", "--name", ".+").split()
        titles = [self._ask("xdotool", "getwindowname", number).strip() for number in numbers]
        return [title for title in titles if title]

    def has_keyboard(self, title: str) -> bool:
        """Is the window of this title the one that keys go to?"""
        return self._ask("xdotool", "getactivewindow", "getwindowname").strip() == title

    def tray_icon(self) -> tuple[int, int, int, int] | None:
        """x, y, width, height of the icon that the panel has embedded."""
        _, bottom = self._size
        for line in self._ask("xwininfo", "-root", "-tree").splitlines():
            found = _NAMED_WINDOW.search(line)
            if found and found["class"] != "tint2":
                width, height, x, y = (int(found[part]) for part in ("width", "height", "x", "y"))
                if width <= PANEL_HEIGHT and y >= bottom - PANEL_HEIGHT and x >= 0:
                    return x, y, width, height
        return None

    def wait_for_tray_icon(self) -> tuple[int, int, int, int]:
        wait_until(lambda: self.tray_icon() is not None, "no tray icon")
        icon = self.tray_icon()
        assert icon is not None
        return icon

    def click_tray(self, button: int = 1) -> None:
        x, y, width, height = self.wait_for_tray_icon()
        # Low on the icon: a balloon's tip covers its middle.
        self.run("xdotool", "mousemove", str(x + width // 2), str(y + height - 3), "click", str(button))

    def menus(self, program: str) -> list[int]:
        """Ids of the program's menus that are open."""
        numbers = self._ask("xdotool", "search", "--onlyvisible", "--class", program).split()
        return [
            int(number)
            for number in numbers
            if "_NET_WM_WINDOW_TYPE_POPUP_MENU" in self._ask("xprop", "-id", number, "_NET_WM_WINDOW_TYPE")
        ]

    def holds(self, window: int) -> bool:
        """Whether all of the window is on the screen."""
        told = self.run("xdotool", "getwindowgeometry", "--shell", str(window))
        at = {name: int(value) for name, value in (line.split("=") for line in told.splitlines())}
        width, height = self._size
        return 0 <= at["X"] <= width - at["WIDTH"] and 0 <= at["Y"] <= height - at["HEIGHT"]

    def end_display(self) -> None:
        """Kill the X server, as where it crashes."""
        display = next(it for it in self._processes if it.args[0] == "Xvfb")  # pyright: ignore[reportIndexIssue]
        display.kill()
        display.wait(10)

    def _spawn(self, *command: str) -> None:
        name = command[0]
        with (self._directory / f"{name}.log").open("ab") as log:
            self._processes.append(subprocess.Popen(command, env=self.env, stdout=log, stderr=log))

    def _start_display(self) -> None:
        reader, writer = os.pipe()
        width, height = self._size
        with (self._directory / "Xvfb.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [
                        "Xvfb",
                        "-displayfd",
                        str(writer),
                        "-screen",
                        "0",
                        f"{width}x{height}x24",
                        "-nolisten",
                        "tcp",
                        "-wr",
                        # Without it the server starts anew when its last client leaves, and cuts off new clients.
                        "-noreset",
                    ],
                    env=self.env,
                    pass_fds=[writer],
                    stdout=log,
                    stderr=log,
                )
            )
        os.close(writer)
        self.env["DISPLAY"] = f":{_line(reader, 'Xvfb')}"

    def _start_bus(self) -> None:
        reader, writer = os.pipe()
        with (self._directory / "dbus.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    ["dbus-daemon", "--session", "--nofork", f"--print-address={writer}"],
                    env=self.env,
                    pass_fds=[writer],
                    stdout=log,
                    stderr=log,
                )
            )
        os.close(writer)
        self.env["DBUS_SESSION_BUS_ADDRESS"] = _line(reader, "dbus-daemon")
        # Programs register with the accessibility bus at their start: it has to be there before them.
        bus = ("--dest=org.a11y.Bus", "/org/a11y/bus", "org.a11y.Bus.GetAddress")
        self.run("dbus-send", "--session", "--print-reply", *bus)

    def _start_window_manager(self) -> None:
        """Ends when it manages: a window that was there before it is not given the keyboard."""
        self._spawn("openbox", "--sm-disable")
        managed = ("xprop", "-root", "_NET_SUPPORTING_WM_CHECK")
        wait_until(lambda: "window id" in self.run(*managed), "openbox does not manage windows")

    def start_panel(self, shade: Shade) -> None:
        config = self._directory / "tint2rc"
        config.write_text(
            "rounded = 0\nborder_width = 0\n"
            f"background_color = {_COLOURS[shade]} 100\n"
            f"panel_items = FS\npanel_size = 100% {PANEL_HEIGHT}\npanel_position = bottom center horizontal\n"
            "panel_background_id = 1\npanel_dock = 0\nsystray_padding = 6 4 6\nsystray_icon_size = 22\n"
            "disable_transparency = 1\n"
        )
        self._spawn("tint2", "-c", str(config))


def wait_until(condition: Callable[[], bool], otherwise: str, seconds: float = _START_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


def _line(reader: int, program: str) -> str:
    with os.fdopen(reader) as pipe:
        ready, _, _ = select.select([pipe], [], [], _START_SECONDS)
        line = pipe.readline().strip() if ready else ""
    assert line, f"{program} did not start"
    return line
