"""The reward function of EasyR1: set ``worker.reward.reward_function`` to this file with ``:compute_score``."""

from groundtrace.publishing.rewards.easyr1 import compute_score as compute_score
