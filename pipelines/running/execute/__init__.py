"""Executes the plan of a run as one Beam job: starts the runner and the workers, shows the progress, and collects the
files.
"""
