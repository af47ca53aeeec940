"""The bundled trainer: SFT and GRPO on the shards, in plain torch and transformers, small enough to read.

Reading order: :mod:`groundtrace.trainer.sft` and :mod:`groundtrace.trainer.grpo` are the two training loops. They call
these modules: :mod:`groundtrace.rewards.rows.shards` reads rows, :mod:`groundtrace.trainer.encode` encodes each row as
a :class:`groundtrace.trainer.sample.Sample`, :mod:`groundtrace.trainer.collate` packs samples into a batch,
:mod:`groundtrace.trainer.policy` computes the log-probabilities of its targets, and :mod:`groundtrace.trainer.loss`
computes the losses. :mod:`groundtrace.trainer.evaluation` evaluates a trained model.

The trainer does not use a training framework: TRL 1.16 does not support per-token advantages, two prompts of a question
in one group, image observations within a rollout, or dynamic sampling. TRL is the oracle in the tests and the baseline
in the benchmarks.
"""
