"""Scoring functions and their aggregation, for curation and training.

The modules ``verl``, ``trl``, ``easyr1`` and ``swift`` are plug-ins that make the verifier a reward in other trainers,
which can also load them by their file path: docs/rewards.md.
"""
