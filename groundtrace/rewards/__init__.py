"""Scores responses to questions, and combines the scores into rewards, for curation and for training.

The modules ``verl``, ``trl``, ``easyr1`` and ``swift`` are plug-ins for the trainers of these names, which can train
with these rewards. A trainer can also load a plug-in by its file path; see docs/rewards.md.
"""
