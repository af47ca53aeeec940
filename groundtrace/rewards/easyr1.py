"""``worker.reward.reward_function`` of EasyR1: this file, with ``:compute_score``."""

import groundtrace  # noqa: F401  (says which package stands in the way of one of ours)
from publishing.rewards.easyr1 import compute_score as compute_score
