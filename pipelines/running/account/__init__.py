"""Accounts for a run: computes its counts, costs, failures and summary, and puts the outputs in place.

It imports ``execute`` and ``plan``.
"""
