"""Loads checkpoints with the ``transformers`` library, and converts the library's errors to CallError.

Only safetensors are loaded, and no code of a checkpoint is run.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from groundtrace.inference.errors import NOT_SENT, CallError, Failure
from groundtrace.inference.model_files import ADAPTER, check_model_files
from groundtrace.inference.settings import EndpointSettings
from groundtrace.schemas.errors import UserError

T = TypeVar("T")
_library = threading.Lock()
MAX_MESSAGE_CHARS = 300


def _renew_lock() -> None:
    """Replace the lock of :func:`of_library` by a new lock. The function is called in each forked process.

    If another thread of the parent held the lock during the fork, the copy in the forked process would never be
    released.
    """
    global _library
    _library = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def of_library(settings: EndpointSettings, get: Callable[[EndpointSettings], T]) -> T:
    """Call ``get`` with the settings, and return its result. ``get`` is a function that uses torch and
    ``transformers``, e.g. to load a model. Errors of these libraries are converted to CallError.

    Only one thread at a time calls ``get``. The reason is that ``transformers`` imports its modules at the first use:
    if two threads do this at the same time, one of them gets an ImportError.
    """
    try:
        with _library:
            return get(settings)
    except CallError:
        raise
    except ImportError as error:
        raise not_sent(
            f"{settings.model} needs torch, torchvision and transformers, which cannot be imported ({error}): install "
            "them"
        ) from error
    except Exception as error:  # values of unexpected types in the files of a checkpoint can raise any type
        raise not_sent(_unloadable(settings.model, error), Failure.BAD_REQUEST) from error


def _unloadable(model: str, error: Exception) -> str:
    """Return a message for the user about a model that the ``transformers`` library cannot load.

    ``model`` is the model's folder or id, and ``error`` is the library's error.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    if not os.path.isdir(model):  # noqa: PTH112  # Path raises an error for some texts that are not paths
        try:
            validate_repo_id(model)
        except HFValidationError:
            return (
                f"the model {model:.100} cannot be loaded: it is neither a folder nor the id of a model in the Hugging "
                "Face Hub: correct the setting model of the endpoint"
            )
    kind = "" if isinstance(error, (OSError, ValueError, RuntimeError)) else f"{type(error).__name__}: "
    return f"the model {model} cannot be loaded (check its files, or download it again): {kind}{error}"


def load_weights(model_class: Any, settings: EndpointSettings, dtype: Any = None) -> Any:
    """Load the checkpoint ``settings.model``, and return the model, an object of the class ``model_class``. The model
    is in evaluation mode, and on the GPU if this machine has one.

    ``model_class`` is a class of the ``transformers`` library. ``dtype`` is the type of the weights: None means
    float32, "auto" means the type in the checkpoint.

    Raises CallError in these cases:

    - A file of the checkpoint is damaged.
    - The checkpoint's config describes a model that is much larger than the weights in its files. Without this check,
      the library would allocate the memory of the large model before it reads the weights.
    - The checkpoint lacks weights. Without this check, the library would initialise the missing weights at random and
      only warn.
    """
    import torch
    from safetensors import SafetensorError

    try:
        _check_size(model_class, settings)
        model, report = model_class.from_pretrained(
            settings.model,
            use_safetensors=True,
            dtype=dtype or torch.float32,
            output_loading_info=True,
            **source(settings),
        )
    except SafetensorError as error:
        raise not_sent(f"{settings.model} is damaged ({error}): download it again", Failure.BAD_REQUEST) from error
    if missing := sorted(report["missing_keys"]):
        kind = model_class.__name__
        message = f"{settings.model} lacks {len(missing)} weights of a {kind}, such as {missing[0]}: use another model"
        raise not_sent(message, Failure.BAD_REQUEST)
    return model.eval().to("cuda" if torch.cuda.is_available() else "cpu")


def check_config(settings: EndpointSettings) -> None:
    """Check the files of a checkpoint before the library reads them. For a model in the Hugging Face Hub, only the file
    ``config.json`` is checked. Raises OSError if there is no ``config.json``. Raises CallError in these cases:

    - A file must not be read (:func:`groundtrace.inference.model_files.check_model_files`).
    - A count (such as the number of layers) or a list in ``config.json`` is too large.
    - A local folder has an adapter, such as LoRA. The adapter's config names a base model, which can be any model. The
      library would load this base model and apply the adapter to it without being asked.
    """
    from transformers import PreTrainedConfig

    from groundtrace.inference.endpoints.checkpoint_sizes import TooLarge, check_counts

    folder = Path(settings.model)
    if (folder / ADAPTER).is_file():
        message = f"{settings.model} has an adapter ({ADAPTER}): merge it into its model, or remove this file"
        raise not_sent(message, Failure.BAD_REQUEST)
    try:
        if folder.is_dir():
            check_model_files(folder)
    except UserError as error:
        raise not_sent(str(error), Failure.BAD_REQUEST) from error
    try:
        config, _ = PreTrainedConfig.get_config_dict(settings.model, **source(settings))
        check_counts(config, f"config.json of {settings.model}")
    except TooLarge as error:
        raise not_sent(str(error), Failure.BAD_REQUEST) from error


def _check_size(model_class: Any, settings: EndpointSettings) -> None:
    """Raise CallError if the model of the checkpoint's config is much larger than the checkpoint's weights.

    Nothing is raised for a checkpoint without safetensors, because ``transformers`` itself then raises an error later.
    """
    from transformers import AutoConfig

    from groundtrace.inference.endpoints.checkpoint_sizes import TooLarge, check_size, outlined, weight_files

    config_class = getattr(model_class, "config_class", None) or AutoConfig
    config = config_class.from_pretrained(settings.model, **source(settings))
    files = weight_files(settings.model, config, source(settings)["revision"])
    try:
        if files:
            check_size(outlined(model_class, config), files, f"config.json of {settings.model}")
    except TooLarge as error:
        raise not_sent(str(error), Failure.BAD_REQUEST) from error


def source(settings: EndpointSettings) -> dict[str, Any]:
    """Return keyword arguments for the library's ``from_pretrained``: the revision of the checkpoint, and the
    instruction to run no code of the checkpoint. For a local folder the library ignores the revision.
    """
    return {"revision": settings.revision or "main", "trust_remote_code": False}


def not_sent(message: str, failure: Failure = Failure.UNSUPPORTED) -> CallError:
    """Return the error for a request that was not passed to the model. ``message`` gives the reason, and ``failure`` is
    the kind of the failure.
    """
    return CallError(failure, one_line(message), partial=NOT_SENT)


def one_line(message: str) -> str:
    """Return the message on one line, cut after 300 characters. The library's messages have many lines, of which the
    first ones are the most useful.
    """
    return " ".join(message.split())[:MAX_MESSAGE_CHARS]
