"""Trains a model with TRL by DPO, on pairs of a good and a worse trace (reasoning with answer) for one question."""

from shared import model, options, rows, words
from trl import DPOConfig, DPOTrainer

given = words(__doc__).parse_args()
trained, processor = model(given)
config = DPOConfig(**options(given), per_device_train_batch_size=2, learning_rate=5e-7, max_length=None)
trainer = DPOTrainer(trained, args=config, train_dataset=rows(given), processing_class=processor)
trainer.train()
trainer.save_model()
