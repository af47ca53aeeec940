"""Limits the sizes to which the image processor of a model resizes images.

The sizes are numbers in the model's files, which another person may have sent. An image that is smaller than the
processor's minimum is enlarged, so a large minimum would fill the memory.
"""

from typing import Any

from groundtrace.inference.model_files import ModelError
from groundtrace.trainer.settings import ModelSettings

MAX_SHORTEST_PX = 2**22
"""The largest accepted value of ``size.shortest_edge``: the number of pixels to which a smaller image is enlarged.

In the model families of the trainer, this value is at most 65,536.
"""
MAX_LONGEST_PX = 50_000_000
"""The largest accepted value of ``size.longest_edge``: the maximum number of pixels of an image after resizing.

In the model families of the trainer, this value is at most 16,777,216.
"""
LIMITS = {"patch_size": 128, "merge_size": 16, "temporal_patch_size": 8}
"""The largest accepted values of other settings of the image processor.

In the model families of the trainer, these values are at most 16, 2 and 2.
"""
FILES = "processor_config.json or preprocessor_config.json"


def check_image_processor(image_processor: Any, settings: ModelSettings) -> None:
    """Check that a model's image processor cuts images into patches, and that its sizes are not too large.

    ``settings`` names the model, for the message. Raises ModelError if the processor does not cut images into patches,
    or for the first size that is not a whole number from 1 to its limit.
    """
    if "image_grid_thw" not in getattr(image_processor, "model_input_names", ()):
        raise ModelError(
            f"{settings.path} has the image processor of another kind of model: this processor does not cut images "
            f"into patches. Download {FILES} of this model again"
        )
    size = image_processor.size
    found = {
        "size.shortest_edge": (size["shortest_edge"], MAX_SHORTEST_PX),
        "size.longest_edge": (size["longest_edge"], MAX_LONGEST_PX),
        **{name: (getattr(image_processor, name), limit) for name, limit in LIMITS.items()},
    }
    for name, (value, limit) in found.items():
        if not (type(value) is int and 1 <= value <= limit):
            raise ModelError(
                f"{settings.path} has {name} = {value!r:.40} in {FILES}, but it must be a whole number from 1 to "
                f"{limit}: correct it, or download the model again"
            )


def bound_images(image_processor: Any, settings: ModelSettings) -> None:
    """Limit the image size of a processor to ``max_pixels`` of the settings, if it is set.

    Raises ModelError if ``max_pixels`` is less than the processor's minimum image size.
    """
    if settings.max_pixels is None:
        return
    size = image_processor.size
    if settings.max_pixels < size["shortest_edge"]:
        raise ModelError(
            f"model.max_pixels must be at least this model's minimum of {size['shortest_edge']} pixels, got "
            f"{settings.max_pixels}"
        )
    bound = min(settings.max_pixels, size["longest_edge"])
    image_processor.size = type(size)(**{**dict(size), "longest_edge": bound})
