#!/bin/sh
# GRPO on exports/easyr1/rl.parquet. Further settings of EasyR1 may follow, such as trainer.n_gpus_per_node=2.
set -eu

export GROUNDTRACE_REWARD="${GROUNDTRACE_REWARD:-argos}"
reward=$(python3 -c 'import groundtrace.rewards.easyr1 as reward; print(reward.__file__)')
python3 -m verl.trainer.main \
    config=examples/easyr1/config.yaml \
    worker.reward.reward_function="$reward:compute_score" \
    "$@"
