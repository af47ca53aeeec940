"""The tool ``execute_python_code`` in the rollouts of other trainers, one file for each (docs/exports.md)."""
