"""Trains a model with TRL by SFT on the accepted traces (reasoning with answer). Only the completion is trained on."""

from shared import model, options, rows, words
from trl import SFTConfig, SFTTrainer

given = words(__doc__).parse_args()
trained, processor = model(given)
config = SFTConfig(**options(given), per_device_train_batch_size=2, learning_rate=1e-5, max_length=None)
trainer = SFTTrainer(trained, config, train_dataset=rows(given), processing_class=processor)
trainer.train()
trainer.save_model()
