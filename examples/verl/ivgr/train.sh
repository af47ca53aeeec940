#!/bin/sh
# Starts verl on exports/ivgr, from the root of the checkout. Further settings may follow, such as trainer.nnodes=2.
set -eu

python3 exports/ivgr/groundtrace_client.py # ends the script where no reward server answers
python3 -m verl.trainer.main_ppo --config-path "$PWD/examples/verl/ivgr" --config-name config "$@"
