"""The bundled trainer: SFT and GRPO on the shards, in plain torch and transformers, small enough to read.

The way through it: :mod:`trainer.shards` reads rows, :mod:`trainer.encode_rows` makes of each a
:class:`trainer.sample.Sample`, :mod:`trainer.collate` packs samples into a batch, :mod:`trainer.policy` gives the
log-probabilities of its targets. :mod:`trainer.sft` and :mod:`trainer.grpo` are the two loops, :mod:`trainer.loss` is
their arithmetic.

Why no training framework stands under it: TRL 1.16 has no per-token advantages, no two prompts of a question in one
group, no image observations within a rollout, and no dynamic sampling. It serves as an oracle in the tests and as a
rival in the benchmarks.
"""
