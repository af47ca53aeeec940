#!/bin/sh
# GRPO on exports/verl/rl.parquet. Further settings of verl may follow, such as trainer.n_gpus_per_node=2.
set -eu

# The rows for the validation: VALIDATION=FILE, the rl.parquet of an export of a run over other questions. Without it
# verl does not validate: on the training rows, a validation measures nothing new, and a reward that learns would learn
# from it. verl needs data.val_files in both cases.
if [ -n "${VALIDATION:-}" ]; then
    set -- data.val_files="$VALIDATION" trainer.test_freq=10 "$@"
else
    set -- trainer.val_before_train=False trainer.test_freq=-1 "$@"
fi
# An unscored response ends the training, unless this variable gives its reward (docs/rewards.md):
#   export GROUNDTRACE_REWARD_UNSCORED=0

python3 exports/verl/groundtrace_client.py # ends the script where no reward server answers
python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    data.train_files="$PWD/exports/verl/rl.parquet" \
    data.val_files="$PWD/exports/verl/rl.parquet" \
    data.prompt_key=prompt \
    data.image_key=images \
    data.reward_fn_key=data_source \
    data.train_batch_size=4 \
    data.max_prompt_length=2048 \
    data.max_response_length=1024 \
    data.filter_overlong_prompts=True \
    data.truncation=error \
    actor_rollout_ref.model.path=Qwen/Qwen3-VL-4B-Instruct \
    actor_rollout_ref.actor.optim.lr=1e-6 \
    actor_rollout_ref.actor.ppo_mini_batch_size=4 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 \
    actor_rollout_ref.actor.clip_ratio_high=0.28 \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=8 \
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1 \
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=1 \
    reward.custom_reward_function.path="$PWD/exports/verl/groundtrace_client.py" \
    reward.custom_reward_function.name=compute_score \
    trainer.n_gpus_per_node=8 \
    trainer.nnodes=1 \
    trainer.total_epochs=1 \
    trainer.project_name=groundtrace \
    trainer.experiment_name=verl-grpo \
    "trainer.logger=[console]" \
    "$@"
