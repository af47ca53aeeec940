"""SFT on the kept traces: the loss counts the completion alone."""

from shared import model, options, rows, words
from trl import SFTConfig, SFTTrainer

given = words(__doc__).parse_args()
trained, processor = model(given)
config = SFTConfig(**options(given), per_device_train_batch_size=2, learning_rate=1e-5, max_length=None)
trainer = SFTTrainer(trained, config, train_dataset=rows(given), processing_class=processor)
trainer.train()
trainer.save_model()
