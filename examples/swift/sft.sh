#!/bin/sh
# SFT on exports/swift/sft.parquet; further options of swift may follow.
set -eu

swift sft \
    --model Qwen/Qwen3-VL-2B-Instruct \
    --use_hf true \
    --dataset exports/swift/sft.parquet \
    --strict true \
    --tuner_type full \
    --torch_dtype bfloat16 \
    --num_train_epochs 1 \
    --per_device_train_batch_size 2 \
    --learning_rate 1e-5 \
    --max_length 4096 \
    --output_dir runs/swift-sft \
    "$@"
