"""Accounts for a run: its counts, costs, failures and summary; puts the outputs in place.

Imports ``execute`` and ``plan``.
"""
