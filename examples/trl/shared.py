"""Provides the functions that all training scripts in this folder use.

They parse the arguments, make the common settings of TRL, and load the training rows and the model.
"""

import argparse
from typing import Any

from datasets import Dataset, load_dataset
from transformers import AutoModelForImageTextToText, AutoProcessor

MODEL = "Qwen/Qwen3-VL-2B-Instruct"


def words(what: str) -> argparse.ArgumentParser:
    """Return the parser of a training script's command-line arguments, such as ``--data`` and ``--model``.

    ``what`` is a description of the script, which ``--help`` shows.
    """
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--data", required=True, help="a Parquet file that `beam export` wrote")
    parser.add_argument("--output", required=True, help="a folder for the trained model")
    parser.add_argument("--model", default=MODEL, help="a folder or a hub id of the family of the export")
    parser.add_argument("--steps", type=int, default=-1, help="end after so many steps (default: one epoch)")
    parser.add_argument("--cpu", action="store_true", help="train on the processor")
    return parser


def options(given: argparse.Namespace) -> dict[str, Any]:
    """Return keyword arguments for TRL's configs: those that all configs accept, e.g. ``SFTConfig`` and ``GRPOConfig``.

    ``given`` holds the parsed command-line arguments. Arguments that only some trainers have, such as ``max_length``,
    are not included.
    """
    return {
        "output_dir": given.output,
        "max_steps": given.steps,
        "num_train_epochs": 1,
        "use_cpu": given.cpu,
        "bf16": not given.cpu,
        "report_to": [],
        "logging_steps": 1,
    }


def rows(given: argparse.Namespace) -> Dataset:
    """Return the training rows in the Parquet file that the argument ``--data`` names.

    ``given`` holds the parsed command-line arguments.
    """
    return load_dataset("parquet", data_files=given.data, split="train")


def model(given: argparse.Namespace) -> tuple[Any, Any]:
    """Load the model that the argument ``--model`` names; return the model and its processor.

    ``given`` holds the parsed command-line arguments.
    """
    auto: Any = AutoModelForImageTextToText
    return auto.from_pretrained(given.model, dtype="auto"), AutoProcessor.from_pretrained(given.model)
