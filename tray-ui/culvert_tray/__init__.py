"""Culvert's tray icon and menu."""
