"""GRPO with the verifier as reward; ``--reward`` names its config, a bundled name or a file (docs/rewards.md)."""

from shared import model, options, rows, words
from trl import GRPOConfig, GRPOTrainer

from groundtrace.rewards.trl import reward_funcs

parser = words(__doc__)
parser.add_argument("--reward", default="argos")
given = parser.parse_args()
trained, processor = model(given)
data = rows(given)
in_streams = any(data["stream"])  # then a call of the reward needs whole questions: two prompts that stand side by side
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
trainer = GRPOTrainer(trained, reward_funcs(given.reward), config, train_dataset=data, processing_class=processor)
trainer.train()
trainer.save_model()
