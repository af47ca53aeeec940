"""``custom_reward_function.path`` of verl: ``pkg://groundtrace.rewards.verl``, or this file."""

from groundtrace.publishing.rewards.verl import compute_score as compute_score
