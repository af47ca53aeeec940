"""Executes a plan: one job, with its runner, workers, live view and files. Imports ``plan``, but not ``account``."""
