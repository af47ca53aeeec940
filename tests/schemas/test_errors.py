import pytest

from inference.endpoints.vllm_server import VllmServerError
from pipelines.commands.cache.places import CacheCommandError
from pipelines.running.inputs import InputError
from pipelines.running.loading import PipelineError
from pipelines.running.run_folder import RunFolderError
from pipelines.running.runner import OptionError
from prompts.loader import PromptError
from publishing.figures import InspectError
from schemas.config import ConfigError
from schemas.errors import UserError, causes
from trainer.checkpoint import CheckpointError
from trainer.memory import DoesNotFit
from trainer.model import ModelError
from trainer.optimiser import NotFinite
from trainer.reward import JudgesDown
from trainer.sampling import SamplerError
from trainer.shards import ShardError
from trainer.training import NothingLearnt

MISTAKES = [
    CacheCommandError,
    CheckpointError,
    ConfigError,
    DoesNotFit,
    InputError,
    InspectError,
    ModelError,
    OptionError,
    PipelineError,
    PromptError,
    RunFolderError,
    ShardError,
    VllmServerError,
]


@pytest.mark.parametrize("error", MISTAKES)
def test_a_mistake_is_a_user_error(error: type[Exception]) -> None:
    assert issubclass(error, UserError)


@pytest.mark.parametrize("error", [ConfigError, OptionError, VllmServerError])
def test_a_value_that_does_not_fit_stays_a_value_error(error: type[Exception]) -> None:
    assert issubclass(error, ValueError)


@pytest.mark.parametrize("error", [JudgesDown, NothingLearnt, NotFinite, SamplerError])
def test_a_server_or_a_training_that_failed_is_no_mistake_of_the_user(error: type[Exception]) -> None:
    assert not issubclass(error, UserError)


def test_a_chain_of_causes_ends() -> None:
    inner, outer = ValueError("inner"), RuntimeError("outer")
    outer.__cause__ = inner
    assert list(causes(outer)) == [outer, inner]
    inner.__cause__ = outer
    assert list(causes(outer)) == [outer, inner]
    inner.__cause__ = inner
    assert list(causes(inner)) == [inner]
    assert list(causes(None)) == []
