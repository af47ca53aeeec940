"""Scoring functions and their aggregation, used to curate and to train.

The modules ``verl``, ``trl``, ``easyr1`` and ``swift`` are the verifier as a reward in other trainers, one module
a trainer, which also load them by the path of their file: docs/rewards.md.
"""
