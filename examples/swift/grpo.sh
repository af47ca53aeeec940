#!/bin/sh
# GRPO on exports/swift/rl.parquet; further options of swift may follow.
set -eu

export GROUNDTRACE_REWARD="${GROUNDTRACE_REWARD:-argos}"
reward=$(python3 -c 'import groundtrace.rewards.swift as reward; print(reward.__file__)')
swift rlhf \
    --rlhf_type grpo \
    --model Qwen/Qwen3-VL-2B-Instruct \
    --use_hf true \
    --dataset exports/swift/rl.parquet \
    --strict true \
    --remove_unused_columns false \
    --external_plugins "$reward" \
    --reward_funcs groundtrace \
    --tuner_type full \
    --torch_dtype bfloat16 \
    --num_generations 8 \
    --per_device_train_batch_size 8 \
    --max_completion_length 1024 \
    --learning_rate 1e-6 \
    --num_train_epochs 1 \
    --output_dir runs/swift-grpo \
    "$@"
