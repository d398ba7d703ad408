"""Texts and views that the tray and the command line share."""
