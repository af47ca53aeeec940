"""Executes a plan as one job, with its runner, workers, live view and files. It imports ``plan``, not ``account``."""
