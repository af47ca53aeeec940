#!/bin/sh
# Starts verl on exports/codedance, from the root of the checkout. Further settings may follow, such as trainer.nnodes=2.
set -eu

python3 -m verl.trainer.main_ppo --config-path "$PWD/examples/verl/codedance" --config-name config "$@"
