"""``custom_reward_function.path`` of verl: ``pkg://groundtrace.rewards.verl``, or this file."""

import groundtrace  # noqa: F401  (says which package stands in the way of one of ours)
from publishing.rewards.verl import compute_score as compute_score
