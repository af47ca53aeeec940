"""Scores responses and combines their scores, for curation and training.

The modules ``verl``, ``trl``, ``easyr1`` and ``swift`` are plug-ins with which other trainers use the verifier as a
reward. A trainer can also load a plug-in by its file path; see docs/rewards.md.
"""
