#!/bin/sh
# GRPO on exports/openrlhf/rl.jsonl; further options may follow.
set -eu

python3 exports/openrlhf/groundtrace_client.py # ends the script where no reward server answers
python3 -m openrlhf.cli.train_ppo_ray \
    --actor.model_name_or_path Qwen/Qwen3-VL-4B-Instruct \
    --reward.remote_url "$PWD/exports/openrlhf/groundtrace_client.py" \
    --data.prompt_dataset "$PWD/exports/openrlhf/rl.jsonl" \
    --data.input_key input \
    --data.label_key label \
    --data.image_key images \
    --data.apply_chat_template \
    --data.max_images_per_prompt 32 \
    --data.max_len 4096 \
    --rollout.max_new_tokens 1024 \
    --rollout.n_samples_per_prompt 8 \
    --rollout.batch_size 4 \
    --train.batch_size 32 \
    --train.num_episodes 1 \
    --algo.advantage.estimator group_norm \
    --vllm.num_engines 8 \
    --train.colocate_all \
    --ckpt.output_dir runs/openrlhf-grpo \
    "$@"
