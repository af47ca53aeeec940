"""Provides the reward functions for the trainer TRL.

To use them, pass them to the argument ``reward_funcs`` of TRL's GRPOTrainer.
"""

from groundtrace.publishing.rewards.trl import reward_funcs as reward_funcs
from groundtrace.publishing.rewards.trl import verified as verified
