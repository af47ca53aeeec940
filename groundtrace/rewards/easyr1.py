"""Provides the reward function of EasyR1.

Set ``worker.reward.reward_function`` to this file's path followed by ``:compute_score``.
"""

from groundtrace.publishing.rewards.easyr1 import compute_score as compute_score
