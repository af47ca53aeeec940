"""Trains models by SFT and GRPO in plain torch and transformers.

The training data are the shards (Parquet files with training rows) of a run (a pipeline's execution).

Begin with :mod:`groundtrace.trainer.sft` and :mod:`groundtrace.trainer.grpo`, which are the two training loops. They
call these modules:

- :mod:`groundtrace.rewards.rows.shards` reads rows.
- :mod:`groundtrace.trainer.encode` encodes each row as a :class:`groundtrace.trainer.sample.Sample` (tokens, images and
  a loss mask).
- :mod:`groundtrace.trainer.collate` packs samples into a batch.
- :mod:`groundtrace.trainer.policy` computes the log-probabilities of the tokens that count in the loss.
- :mod:`groundtrace.trainer.loss` computes the losses.

:mod:`groundtrace.trainer.evaluation` evaluates a trained model.

The trainer does not use a training framework, because TRL 1.16 lacks four features: advantages per token, a common
reward for the responses to two prompts of one question, observations (tool results) with images within a response, and
dynamic sampling. The tests compare the results with TRL's, and the benchmarks compare the speed with TRL's.
"""
