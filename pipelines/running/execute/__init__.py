"""Executes a plan as one Beam job: runner, workers, progress view and files. It imports ``plan``, not ``account``."""
