"""Checks ``model.path`` and loads the model's config, before the model is loaded.

The path must be a folder or the id of a model in the Hugging Face Hub.

transformers treats any path that is not a folder as the id of a Hub model. So with a mistyped folder, and without a
network, transformers would retry for half a minute and then fail with a message about ids.
"""

from pathlib import Path
from typing import Any

from huggingface_hub import get_hf_file_metadata, hf_hub_url, is_offline_mode, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.utils import validate_repo_id
from transformers import AutoConfig

from groundtrace.inference.model_files import ModelError, check_model_files
from groundtrace.trainer.checkpoint import STATE
from groundtrace.trainer.model_sizes import check_counts
from groundtrace.trainer.settings import ModelSettings

TINY = "runs/tiny/model"
"""The folder of the model in the bundled config ``tiny``. The command ``trainer tiny`` makes this model."""


class HubUnreachable(ModelError):
    """Raised if the model is not on this machine, and the Hugging Face Hub is unreachable or HF_HUB_OFFLINE is set.

    The message contains the reason.
    """


def check_model_path(settings: ModelSettings) -> None:
    """Check that ``model.path`` can be loaded, before the model is loaded. Raises ModelError if not.

    A path that exists on this machine is accepted if the folder is not a checkpoint of the trainer, and if its files
    are safe to read. Two functions check these files:
    :func:`groundtrace.inference.model_files.check_model_files`, which also raises UnsafeFile, and
    :func:`groundtrace.trainer.model_sizes.check_counts`.

    Any other path must have the form of an id in the Hugging Face Hub, e.g. ``Qwen/Qwen3-VL-2B-Instruct``. An id is
    accepted if the Hub's local cache holds the ``config.json`` of the model. Otherwise, there are three cases, which
    are checked in this order:

    - The part before the "/" is a local folder. For example, ``models/tiny`` is probably a mistyped path if there is a
      folder ``models``. ModelError is raised.
    - HF_HUB_OFFLINE is set. The function raises nothing: the error is raised later, when the model is loaded.
    - In all other cases, one request is sent to the Hub. If the Hub does not reply, HubUnreachable is raised. If the
      Hub replies with an error, the error is raised later, when the model is loaded.
    """
    path = settings.path
    try:
        if Path(path).exists():
            if (Path(path) / STATE).is_file():
                raise ModelError(
                    f"cannot load {path}, because this folder is a checkpoint of a training, not a model: set "
                    "model.path to the folder `model` in the output folder of this training, or make a model of the "
                    f"checkpoint with `trainer export {path} OUT --model BASE`, where BASE is the model from which the "
                    "training started"
                )
            check_model_files(Path(path))
            check_counts(Path(path))
            return
        validate_repo_id(path)
    except OSError as error:  # a name that is too long, or a folder that this user may not read
        raise ModelError(f"cannot load {path}: {error.strerror}: correct model.path") from error
    except HFValidationError:
        raise ModelError(f"cannot load {path}, because {_absent(path)}: {_remedy(path)}") from None
    if isinstance(try_to_load_from_cache(path, "config.json", revision=settings.revision), str):
        return
    first, slash, _ = path.partition("/")
    if slash and Path(first).is_dir():
        raise ModelError(
            f"cannot load {path}: the folder {first}/ exists, but {path} does not: correct model.path, or first "
            f"download the Hub model of this name (`hf download {path}`)"
        )
    if not is_offline_mode():
        _ask_once(path, settings.revision)


def model_config(settings: ModelSettings) -> Any:
    """Return the transformers config of the model that the settings name.

    Raises ModelError if the config cannot be loaded. Raises HubUnreachable if the model is not on this machine, and the
    Hugging Face Hub is unreachable or HF_HUB_OFFLINE is set.
    """
    check_model_path(settings)
    path = settings.path
    try:
        return AutoConfig.from_pretrained(path, revision=settings.revision, trust_remote_code=False)
    except Exception as error:  # transformers raises any type if a value has another type than it expects
        if is_offline_mode() and not Path(path).exists():
            raise HubUnreachable(
                f"cannot load {path}: {_absent(path)}, the Hub's cache does not hold the model, and "
                "HF_HUB_OFFLINE is set: correct model.path, or unset HF_HUB_OFFLINE"
            ) from error
        reason = f"{' '.join(str(error).split())[:300]} ({type(error).__name__})"
        raise ModelError(f"cannot load the config of {path}: {reason}: check model.path and its config.json") from error


def _ask_once(path: str, revision: str) -> None:
    try:
        get_hf_file_metadata(hf_hub_url(path, "config.json", revision=revision))
    except HfHubHTTPError:  # the Hub has answered: loading raises the error again, or retries
        return
    except Exception as error:  # of the HTTP client, which is another package in each major version of huggingface_hub
        raise HubUnreachable(
            f"cannot load {path}: {_absent(path)}, and the Hub cannot be reached "
            f"({' '.join(str(error).split())[:200]}): check model.path and the network"
        ) from error


def _absent(path: str) -> str:
    return f"the folder {Path(path).absolute()} does not exist"


def _remedy(path: str) -> str:
    if path == TINY:
        return f"make this folder with `trainer tiny {TINY} --data RUN`, or name yours with --set model.path=FOLDER"
    if path.startswith("~"):
        return "write the full path in model.path, because ~ is not expanded"
    return "correct model.path"
