import pytest

from groundtrace.config.errors import ConfigError
from groundtrace.inference.endpoints.vllm_server import VllmServerError
from groundtrace.pipelines.commands.cache.places import CacheCommandError
from groundtrace.pipelines.running.plan.inputs import InputError
from groundtrace.pipelines.running.plan.loading import PipelineError
from groundtrace.pipelines.running.plan.local_run import RunFolderError
from groundtrace.pipelines.running.plan.options import OptionError
from groundtrace.prompts.loader import PromptError
from groundtrace.publishing.reading import InspectError
from groundtrace.rewards.rows.reward import JudgesDown
from groundtrace.rewards.rows.shards import ShardError
from groundtrace.schemas.errors import UserError, causes
from groundtrace.trainer.checkpoint import CheckpointError
from groundtrace.trainer.memory_advice import DoesNotFit
from groundtrace.trainer.model import ModelError
from groundtrace.trainer.optimiser import NotFinite
from groundtrace.trainer.sampler import SamplerError
from groundtrace.trainer.training import NothingLearnt

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
