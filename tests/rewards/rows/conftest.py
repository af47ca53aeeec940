"""The trainer's tiny models, pictures and written shards."""

from ...trainer.conftest import folders, load, png, qwen3, row, run, write_shards

__all__ = ["folders", "load", "png", "qwen3", "row", "run", "write_shards"]
