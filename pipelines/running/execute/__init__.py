"""Executes a planned run of a pipeline as one Beam job: starts the runner and the workers, shows the progress, and
collects the files.
"""
