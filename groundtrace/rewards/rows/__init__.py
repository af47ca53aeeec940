"""Computes the rewards of responses to the training rows of a run, for our own trainer and for other trainers.

A row is one question with its prompt, its images and the data that rewards need. :mod:`groundtrace.rewards.rows.shards`
and :mod:`groundtrace.rewards.rows.records` read rows, :mod:`groundtrace.rewards.rows.checks` checks them before
training, and :mod:`groundtrace.rewards.rows.reward` scores responses to them. No module of this package imports torch.
"""
