"""Provides the reward function of verl.

Set ``custom_reward_function.path`` to ``pkg://groundtrace.rewards.verl`` or to the path of this file.
"""

from groundtrace.publishing.rewards.verl import compute_score as compute_score
