"""Provides the tool ``execute_python_code`` in the rollouts of other trainers, with a file for each trainer.

docs/exports.md describes how to use it.
"""
