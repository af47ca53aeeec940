"""The bundled trainer: SFT and GRPO on the shards, in plain torch and transformers, small enough to read.

Reading order: :mod:`groundtrace.trainer.shards` reads rows, :mod:`groundtrace.trainer.encode_rows` encodes each row as
a :class:`groundtrace.trainer.sample.Sample`, :mod:`groundtrace.trainer.collate` packs samples into a batch, and
:mod:`groundtrace.trainer.policy` computes the log-probabilities of its targets. :mod:`groundtrace.trainer.sft` and
:mod:`groundtrace.trainer.grpo` are the two training loops; :mod:`groundtrace.trainer.loss` computes their losses.

The trainer does not use a training framework: TRL 1.16 does not support per-token advantages, two prompts of a question
in one group, image observations within a rollout, or dynamic sampling. TRL is the oracle in the tests and the baseline
in the benchmarks.
"""
