"""Computes the counts, costs, failures and summary of a run, and puts the outputs in place.

It imports ``execute`` and ``plan``.
"""
