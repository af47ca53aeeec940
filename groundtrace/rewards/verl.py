"""The reward function of verl: ``custom_reward_function.path`` is ``pkg://groundtrace.rewards.verl`` or this file."""

from groundtrace.publishing.rewards.verl import compute_score as compute_score
