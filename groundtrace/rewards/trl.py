"""``reward_funcs`` of TRL's GRPOTrainer."""

import groundtrace  # noqa: F401  (says which package stands in the way of one of ours)
from publishing.rewards.trl import reward_funcs as reward_funcs
from publishing.rewards.trl import verified as verified
