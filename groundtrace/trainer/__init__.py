"""The bundled trainer: SFT and GRPO on the shards, in plain torch and transformers, small enough to read.

The way through it: :mod:`groundtrace.trainer.shards` reads rows, :mod:`groundtrace.trainer.encode_rows` makes of each a
:class:`groundtrace.trainer.sample.Sample`, :mod:`groundtrace.trainer.collate` packs samples into a batch,
:mod:`groundtrace.trainer.policy` gives the log-probabilities of its targets. :mod:`groundtrace.trainer.sft` and
:mod:`groundtrace.trainer.grpo` are the two loops, :mod:`groundtrace.trainer.loss` is their arithmetic.

Why no training framework stands under it: TRL 1.16 has no per-token advantages, no two prompts of a question in one
group, no image observations within a rollout, and no dynamic sampling. It serves as an oracle in the tests and as a
rival in the benchmarks.
"""
