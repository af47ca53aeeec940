#!/bin/sh
# Starts verl on exports/sail_rl, from the root of the checkout. Further settings may follow, such as trainer.nnodes=2.
set -eu

python3 exports/sail_rl/groundtrace_client.py # ends the script where no reward server answers
python3 -m verl.trainer.main_ppo --config-path "$PWD/examples/verl/sail_rl" --config-name config "$@"
