"""Provides the reward functions for the trainer TRL: ``reward_funcs`` and ``verified``.

``GRPOTrainer(reward_funcs=reward_funcs("argos"), …)`` trains with the reward of the config "argos". ``verified`` is a
reward function for trainers that load such a function from an import path. For ``verified``, the environment variable
``GROUNDTRACE_REWARD`` names the config.
"""

from groundtrace.publishing.rewards.trl import reward_funcs as reward_funcs
from groundtrace.publishing.rewards.trl import verified as verified
