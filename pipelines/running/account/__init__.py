"""Computes the counts, costs, failures and summary of a run, and moves its outputs into the run folder (the folder that
the user gets).

It uses the packages ``plan`` (prepares a run) and ``execute`` (runs it); they do not use it.
"""
