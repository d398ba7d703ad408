"""Detects a host of tray icons that starts after the tray, as happens at a sign-in."""

from __future__ import annotations

from PyQt6.QtCore import QObject, pyqtSignal
from PyQt6.QtDBus import QDBusConnection, QDBusServiceWatcher

from culvert_tray.signals import connect

# StatusNotifierItem specification.
_WATCHER = "org.kde.StatusNotifierWatcher"


class LateHost(QObject):
    came = pyqtSignal()
    """Once, where there was none. An icon that has had a host tells the next one by itself."""

    def __init__(self) -> None:
        super().__init__()
        bus = QDBusConnection.sessionBus()
        names = bus.interface()
        if names is None:
            return
        registered = names.isServiceRegistered(_WATCHER)
        # Without a session bus the answer is not valid, and no host can come.
        if not registered.isValid() or registered.value():
            return
        self._watcher = QDBusServiceWatcher(
            _WATCHER, bus, QDBusServiceWatcher.WatchModeFlag.WatchForRegistration, self
        )
        connect(self._watcher.serviceRegistered, self._on_registered)

    def _on_registered(self) -> None:
        self._watcher.removeWatchedService(_WATCHER)
        self.came.emit()
