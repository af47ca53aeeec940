"""Defines the settings of the validation: a test of the model at intervals during the training.

The test asks the model questions that are not used for the training.
"""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from groundtrace.config.settings import settings


@settings
class ValidationSettings:
    """Holds the settings of the validation during training. The validation is on if ``share`` or ``data`` is set.

    Answers are sampled as in ``trainer eval``. They are scored with the reward in the section ``reward``, in SFT too.
    """

    share: Annotated[
        float,
        Field(ge=0, lt=1),
        "the share of the rows that is held out: whole media groups (rows that share an image), which are not trained "
        "on",
    ] = 0.0
    data: Annotated[
        str,
        "instead of share: a run, its shards, or a folder with records.jsonl; rows that share an image with it are not "
        "trained on",
    ] = ""
    every: Annotated[
        PositiveInt, "the number of steps from one validation to the next; the start and the end are validated too"
    ] = 50
    questions: Annotated[NonNegativeInt, "ask at most this number of the held-out questions (0: all)"] = 200
    samples: Annotated[PositiveInt, "the number of answers to each question"] = 1
    best_by: Annotated[
        Literal["accuracy", "reward", "point_f1", "loss"],
        "the metric whose best value is the best checkpoint, in OUT/best (of equal values, that with the lowest loss, "
        "then the first); loss (the lowest is the best) is of SFT only",
    ] = "accuracy"
    stop_after: Annotated[
        NonNegativeInt,
        "end the training after this number of validations in a row in which the reward rose and the accuracy fell (0: "
        "never)",
    ] = 3

    def __post_init__(self) -> None:
        if self.share and self.data:
            raise ValueError(f"share must be 0 if validation.data is set, got {self.share}")

    @property
    def is_on(self) -> bool:
        """Return whether there is a validation: whether ``share`` or ``data`` is set."""
        return self.share > 0 or bool(self.data)
