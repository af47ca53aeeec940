"""``worker.reward.reward_function`` of EasyR1: this file, with ``:compute_score``."""

from groundtrace.publishing.rewards.easyr1 import compute_score as compute_score
