"""Executes one pass of a planned run over the input as a Beam job: starts the runner and the workers, shows the
progress, and collects the files.
"""
