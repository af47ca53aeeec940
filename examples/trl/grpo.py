"""Trains a model with TRL by GRPO.

A Groundtrace server, ``beam serve-reward``, computes the reward of each sampled response (docs/rewards.md). With
``--reward``, this process computes it instead.
"""

import sys
from pathlib import Path

from shared import model, options, rows, words
from trl import GRPOConfig, GRPOTrainer

parser = words(__doc__)
parser.add_argument(
    "--reward",
    help="a config of the reward, a bundled name or a file: no server is asked then, and groundtrace is installed here",
)
given = parser.parse_args()
if given.reward:
    from groundtrace.rewards.trl import reward_funcs

    rewards = reward_funcs(given.reward)
else:
    sys.path.append(str(Path(given.data).parent))  # where `beam export` wrote the client
    import groundtrace_client

    if groundtrace_client.main():  # no server answered; main() has printed the reason
        sys.exit(1)
    rewards = groundtrace_client.reward_funcs()
trained, processor = model(given)
data = rows(given)
in_streams = any(data["stream"])  # if so, each question has two adjacent prompts, and a reward call needs both of them
config = GRPOConfig(
    **options(given),
    per_device_train_batch_size=8,
    gradient_accumulation_steps=2 if in_streams else 1,
    shuffle_dataset=not in_streams,
    num_generations=8,
    max_completion_length=1024,
    learning_rate=1e-6,
    epsilon_high=0.28,
)
trainer = GRPOTrainer(trained, rewards, config, train_dataset=data, processing_class=processor)
trainer.train()
trainer.save_model()
