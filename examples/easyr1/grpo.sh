#!/bin/sh
# GRPO on exports/easyr1/rl.parquet. Further settings of EasyR1 may follow, such as trainer.n_gpus_per_node=2.
set -eu

python3 exports/easyr1/groundtrace_client.py # ends the script where no reward server answers
python3 -m verl.trainer.main \
    config=examples/easyr1/config.yaml \
    worker.reward.reward_function="$PWD/exports/easyr1/groundtrace_client.py:compute_score_easyr1" \
    "$@"
