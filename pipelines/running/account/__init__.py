"""Computes the counts, costs, failures and summary of a run, and moves its outputs into the run folder (the folder that
the user gets).

This package uses the packages ``plan`` (which prepares a run) and ``execute`` (which runs it). Those two packages do
not use this one.
"""
