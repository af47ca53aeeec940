"""Provides the reward function for the trainer verl.

To use it, set ``custom_reward_function.path`` in verl's config to ``pkg://groundtrace.rewards.verl`` or to the path of
this file.
"""

from groundtrace.publishing.rewards.verl import compute_score as compute_score
