"""Provides the reward function for the trainer EasyR1.

To use it, set ``worker.reward.reward_function`` in EasyR1's config to this file's path followed by ``:compute_score``.
"""

from groundtrace.publishing.rewards.easyr1 import compute_score as compute_score
