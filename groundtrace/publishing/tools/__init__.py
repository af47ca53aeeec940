"""Provides the tool ``execute_python_code`` for the rollouts of other trainers, with a file for each trainer.

The tool executes the code of a policy (the model in training) in Groundtrace's sandbox. docs/exports.md describes how
to use it.
"""
