#!/bin/sh
# GRPO on exports/swift/rl.parquet; further options of swift may follow.
set -eu

python3 exports/swift/groundtrace_client.py # ends the script where no reward server answers
swift rlhf \
    --rlhf_type grpo \
    --model Qwen/Qwen3-VL-2B-Instruct \
    --use_hf true \
    --dataset exports/swift/rl.parquet \
    --strict true \
    --remove_unused_columns false \
    --external_plugins exports/swift/groundtrace_client.py \
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
