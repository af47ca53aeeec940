"""Scores responses for other trainers in the same way as Groundtrace's own trainer scores them.

With each response, a trainer passes a reference, which names the row that the response answers. The row is read from
its run, and its images are written once to the reward's folder. The response's coordinates are converted to pixels, and
:class:`groundtrace.rewards.rows.reward.Reward` scores the response.

A recipe is the code that computes the rewards of one paper. Some recipes compare responses
(:attr:`groundtrace.rewards.recipes.base.Recipe.compares`). One call must then hold all responses to a question, since
responses are compared within a call.

Some recipes learn from each training step. By default, one call with a list of responses is one step. If the setting
``step_responses`` is given, a step ends after this number of responses. The learnt state is kept in the memory of the
process, so several processes learn separately.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from groundtrace.config.errors import ConfigError
from groundtrace.inference.preflight import Health
from groundtrace.publishing.rewards.reference import BadReference, RowReference
from groundtrace.publishing.rewards.settings import RemoteRewardSettings
from groundtrace.rewards.rows.checks import check_judge, check_recipe, reads_text
from groundtrace.rewards.rows.reward import Part, PreparedRow, PromptResponses, Reward, Scored
from groundtrace.rewards.rows.row import TrainingRow, per_stream
from groundtrace.rewards.rows.shards import Shards
from groundtrace.rewards.scorers.outcome import needs_judge
from groundtrace.rewards.trajectory import TRAJECTORY, Trajectory
from groundtrace.schemas.errors import UserError
from groundtrace.storage.mirror import local_copy

SIDE = "rl"
KEPT_ROWS = 20_000
"""The maximum number of rows in the cache. The cache holds no images."""


class BadAnswer(UserError):
    """Raised if an answer (a response of a model with a reference to its row) cannot be scored.

    ``number`` is the index of the answer in the call; None if the problem concerns the whole call. ``problem`` is the
    reason.
    """

    def __init__(self, number: int | None, problem: str) -> None:
        super().__init__(problem if number is None else f"answer {number}: {problem}")
        self.number, self.problem = number, problem


@dataclass(frozen=True)
class Answer:
    """Holds a response of a model, and the reference of the row that it answers.

    ``reference`` names the run and the row. ``text`` is the response as the model wrote it: its coordinates are in the
    model's own frame (pixels, 0–100 or 0–1000). ``trajectory`` holds the turns of the response with the results of its
    code; None if no code was executed.
    """

    reference: RowReference
    text: str
    trajectory: Trajectory | None = None


@dataclass(frozen=True)
class ScoreBatch:
    """Holds the answers (responses of a model) of one call in groups. The answers of a group are scored together.

    Attributes:
        parts: the groups. A group holds one or several prompts of a question, with the answers to each prompt.
        places: three indices for each answer: the index of its group, the index of its prompt in this group, and the
            index of the answer among the answers to this prompt. If an answer needs a judge, but the reward has no
            judge, None replaces its indices.
        texts: the answers as the model wrote them.
    """

    parts: tuple[Part, ...]
    places: tuple[tuple[int, int, int] | None, ...]
    texts: tuple[str, ...]

    def scores(self, found: Sequence[Sequence[Sequence[Scored]]]) -> list[Scored]:
        """Return the score of each answer (a response of a model), in the order of the call.

        ``found`` holds the scores as nested lists: ``found[group][prompt][answer]``. For each answer, ``places`` holds
        these three indices. If ``places`` holds None for an answer, the answer needs a judge, but the reward has no
        judge. The score of such an answer has the reward None.
        """
        return [
            Scored(None, None, text, ()) if place is None else found[place[0]][place[1]][place[2]]
            for place, text in zip(self.places, self.texts, strict=True)
        ]


_Responses = tuple[PreparedRow, list[tuple[str, str]], list[Trajectory | None]]
"""A prompt's row, the results of :meth:`PreparedRow.in_pixels` for the responses to it, and their trajectories."""


class RowReward:
    """Scores responses to rows of runs, for other trainers. Several threads may use one instance.

    ``settings`` is the config of the reward, which names its recipe (the code that computes the rewards of one paper).
    ``runs`` maps names to run folders, in addition to the run folders of the settings; None for no further folders. If
    there are any run folders, rows are read only from them. Otherwise rows are read from the folder that each reference
    names. If ``fails_fast`` is True, calls to a model server that is known to be unreachable fail immediately.
    ``has_trajectories`` is True if the answers have trajectories (results of executed code), which some recipes need.

    Raises ConfigError if the settings cannot be used, and :class:`groundtrace.config.extras.MissingExtra` if an
    optional package is missing.
    """

    def __init__(
        self,
        settings: RemoteRewardSettings,
        runs: Mapping[str, Path] | None = None,
        fails_fast: bool = False,
        has_trajectories: bool = False,
    ) -> None:
        self.settings = settings
        self._has_trajectories = has_trajectories
        self.recipe = settings.reward.make_recipe()
        self._reward = Reward(settings.reward, settings.home, fails_fast)
        self._reads_text = reads_text(settings.reward)
        self._folders = dict(runs or {}) | {name: local_copy(folder) for name, folder in settings.runs.items()}
        self._runs: dict[Path, Shards] = {}
        self._lock = threading.Lock()
        self._learning = threading.Lock()
        self._step: list[tuple[TrainingRow, Sequence[Scored]]] = []
        self._ready = lru_cache(KEPT_ROWS)(self._read)
        self._speech = lru_cache(None)(settings.speech.speech_of)

    @property
    def runs(self) -> tuple[str, ...]:
        """Return the names of the runs from which rows may be read; empty if every run may be read."""
        return tuple(self._folders)

    def open_run(self, name: str) -> tuple[int, str | None]:
        """Open the run with this name. Return its number of RL rows, and a warning for the user.

        ``name`` is a name in :attr:`runs`, or the path of a run folder if every run may be read. The warning states
        that responses to some rows will get no reward, because only a judge can grade them. If there are no such rows,
        the warning is None. Raises BadReference for a run that the settings do not allow, and ShardError for a run that
        cannot be read. Raises ConfigError if its rows lack data that the recipe (the code that computes the rewards)
        needs.
        """
        shards = self._shards(self._folder(name))
        return len(shards), check_judge(self.settings.reward, shards)

    def check_endpoints(self) -> None:
        """Check that the endpoints (model servers) that the reward calls, such as that of the judge, are ready.

        Raises :class:`groundtrace.inference.preflight.NotServed` if an endpoint is not ready.
        """
        self._reward.check_endpoints()

    async def health(self) -> tuple[Health, ...]:
        """Return the state of each endpoint (model server) that the reward calls, e.g. whether it is ready.

        The coroutine must run on the event loop of :mod:`groundtrace.inference.runtime`.
        """
        return await self._reward.health()

    def score(self, answers: Sequence[Answer], is_step: bool = True) -> list[Scored]:
        """Return the score of each answer, in order. An answer is a response of a model with a reference to its row.

        ``is_step`` is True if the call holds all responses of a training step, or at least all responses to each
        question that occurs in the call.

        Raises BadAnswer for an answer that cannot be scored, for example because its row is missing. Raises
        :class:`groundtrace.rewards.rows.reward.JudgesDown` if endpoints (model servers) do not answer within
        ``reward.wait_s`` seconds. Raises ConfigError if ``is_step`` is False and the recipe (the code that computes the
        rewards) cannot score single responses. Some recipes compare the responses to the different prompts of a
        question. With such a recipe, raises BadReference if one of these prompts has no response in the call.
        """
        self.check_way(is_step)
        call = self.prepare(answers)
        found = self._reward.wait_for(call.parts)
        self.learn(call, found, is_step)
        return call.scores(found)

    async def attempt(self, call: ScoreBatch, is_step: bool) -> list[Scored]:
        """Score the answers (responses of a model) in ``call``. Return the score of each answer, in order.

        ``call`` is the result of :meth:`prepare`: it holds the answers in groups that are scored together. ``is_step``
        is True if the call holds all responses of a training step, or at least all responses to each of its questions.
        If an endpoint (model server) is down, raise JudgesDown without waiting. The coroutine must run on the event
        loop of :mod:`groundtrace.inference.runtime`.
        """
        found = []
        for each in await self._reward.attempt(call.parts):
            if isinstance(each, Exception):
                raise each
            found.append(each)
        self.learn(call, found, is_step)
        return call.scores(found)

    def check_way(self, is_step: bool) -> None:
        """Check that the recipe can score a call that holds only a part of a training step.

        A recipe is the code that computes the rewards. ``is_step`` is True if the call holds all responses of a
        training step, or at least all responses to each of its questions. If ``is_step`` is True, nothing is checked,
        because every recipe can score such a call.

        If ``is_step`` is False, ConfigError is raised in two cases: the recipe compares the responses to a question, or
        the recipe learns from whole steps and the setting ``step_responses`` is not given.
        """
        why, remedy = "", ""
        if not is_step and self.recipe.compares:
            why = "compares all responses to a question"
        elif not is_step and self.recipe.learns and not self.settings.step_responses:
            why, remedy = "learns from whole training steps", "set step_responses in the reward's config, or "
        if why:
            raise ConfigError(
                f"reward.recipe = {self.recipe.name!r} cannot score one response alone, because this recipe {why}: "
                f"{remedy}use an interface that passes lists of responses, such as the plug-ins for TRL and EasyR1 "
                "(docs/exports.md)"
            )

    def prepare(self, answers: Sequence[Answer]) -> ScoreBatch:
        """Read the rows of the answers, and put the answers into groups that are scored together.

        An answer is a response of a model with a reference to its row. Raises BadAnswer for an answer that cannot be
        scored. Some recipes (code that computes the rewards) compare the responses to the different prompts (streams)
        of a question. With such a recipe, raises BadReference if one of these prompts has no response in ``answers``.
        """
        groups: dict[tuple[Path, str], dict[str, _Responses]] = {}
        found: list[tuple[tuple[Path, str], str, int] | None] = []
        for number, answer in enumerate(answers):
            try:
                key, ready = self._ready_of(answer.reference)
                speech = self._speech(answer.reference.family)
            except (ValueError, UserError) as error:  # UnusableRow and an unknown family are ValueErrors
                raise BadAnswer(number, str(error)) from error
            if not self._reads_text and needs_judge(ready.question):
                found.append(None)
                continue
            stream = ready.row.context.stream or ""
            _, texts, trajectories = groups.setdefault(key, {}).setdefault(stream, (ready, [], []))
            found.append((key, stream, len(texts)))
            texts.append(ready.in_pixels(answer.text, speech))
            trajectories.append(answer.trajectory)
        self._check_streams(groups)
        parts: list[Part] = []
        at: dict[tuple[tuple[Path, str], str], tuple[int, int]] = {}
        for key, streams in groups.items():
            for members in [[*streams]] if self.recipe.compares else [[stream] for stream in streams]:
                at |= {(key, stream): (len(parts), place) for place, stream in enumerate(members)}
                parts.append([_asked(*streams[stream]) for stream in members])
        places = tuple(None if each is None else (*at[each[:2]], each[2]) for each in found)
        return ScoreBatch(tuple(parts), places, tuple(answer.text for answer in answers))

    def learn(self, call: ScoreBatch, found: Sequence[Sequence[Sequence[Scored]]], is_step: bool) -> None:
        """Add the scores of a call to the current training step, and let the reward recipe learn from a complete step.

        ``call`` holds the answers in groups, and ``found`` holds their scores in the same groups. If the setting
        ``step_responses`` is given, a step is complete after this number of responses. If it is 0, each call with
        ``is_step`` True is a complete step. A recipe is the code that computes the rewards. If the recipe does not
        learn, nothing is done.
        """
        if not self.recipe.learns:
            return
        with self._learning:
            for part, each in zip(call.parts, found, strict=True):
                self._step += [(prompt.row, scored) for prompt, scored in zip(part, each, strict=True)]
            wanted = self.settings.step_responses
            if is_step if not wanted else sum(len(scored) for _, scored in self._step) >= wanted:
                self._reward.learn(self._step)
                self._step = []

    def row_of(self, reference: RowReference) -> TrainingRow:
        """Return the row that a reference names, with its images. A reference holds the run and the id of a row.

        Raises BadReference for a run that the settings do not allow, ShardError for a run that cannot be read, and
        UnusableRow for a row that is missing or unusable. Raises ConfigError if the rows lack data that the recipe (the
        code that computes the rewards) needs.
        """
        return self._shards(self._folder(reference.run)).named(reference.id)

    def close(self) -> None:
        """Close the cache of model replies, and the connections to model servers."""
        self._reward.close()

    def _ready_of(self, reference: RowReference) -> tuple[tuple[Path, str], PreparedRow]:
        """Return the (folder, id) of a reference's row, and the row with the prompt that the reference names.

        Raises BadReference if the reference does not match its row, or names a run that the settings do not allow.
        Raises UnusableRow, ShardError and ConfigError in the same cases as :meth:`row_of`, and UnusableRow also for an
        image that cannot be decoded.
        """
        key = self._folder(reference.run), reference.id
        ready = self._ready(*key)
        gold = ready.question.answer
        if reference.answer not in (None, gold):
            raise BadReference(
                f"the row {reference.id!r:.80} has the answer {reference.answer!r:.80} in the exported reference, but "
                f"the answer {gold!r:.80} in the run: export the run again"
            )
        named = reference.stream
        streams = [stream for stream, _ in ready.row.streams]
        if named and named not in streams:
            raise BadReference(
                f"the reference of the row {reference.id!r:.80} names the prompt {named!r:.40}, but the row has no "
                "prompt of this name: export the run again"
            )
        if not named and "stream" in self.recipe.needs:
            if len(streams) != 1:
                raise BadReference(
                    f"the export does not tell which of the {len(streams)} prompts of the row {reference.id!r:.80} a "
                    f"response answers, but reward.recipe = {self.recipe.name!r} must know it: export the run again"
                )
            named = streams[0]
        [row] = per_stream(ready.row, (named,)) if named else [ready.row]
        return key, replace(ready, row=row)

    def _check_streams(self, groups: Mapping[tuple[Path, str], Mapping[str, object]]) -> None:
        """Raise BadReference if the recipe compares responses, and a prompt of a question has no response in the call.

        A recipe is the code that computes the rewards. It may compare the responses to all prompts (streams) of a
        question. ``groups`` holds, for each question of the call, the streams that have a response.
        """
        if not self.recipe.compares:
            return
        for key, found in groups.items():
            streams = [stream for stream, _ in self._ready(*key).row.streams]
            if missing := [stream for stream in streams if stream not in found]:
                raise BadReference(
                    f"the question {key[1]!r:.80} has {len(streams)} prompts, but this call has no response to its "
                    f"prompt {missing[0]!r}. reward.recipe = {self.recipe.name!r} compares the responses to all "
                    "prompts of a question: keep the order of the exported rows, and pass a multiple of "
                    f"{len(streams)} prompts in each call (docs/exports.md)"
                )

    def _read(self, folder: Path, id: str) -> PreparedRow:
        """Read the row with this id from a run folder, write its images to files, and return the row."""
        return self._reward.ready(self._shards(folder).named(id))

    def _folder(self, run: str) -> Path:
        """Return the folder of the run that a reference names. Raises BadReference for a run that is not configured.

        ``run`` is the name or the path of a run, from a reference. If no run folders are configured, every path is
        allowed. Otherwise ``run`` is only compared with the names and paths of the configured folders, and is never
        opened as a path. If ``run`` is "" and one folder is configured, this folder is returned.
        """
        if not self._folders:
            return Path(run)
        if not run and len(self._folders) == 1:
            return next(iter(self._folders.values()))
        for name, folder in self._folders.items():
            if run == name or Path(run).absolute() == folder.absolute():
                return folder
        known = ", ".join(sorted(self._folders))
        raise BadReference(
            f"the run {run!r:.80} is unknown: the known runs are {known}. Add the folder of the unknown run to the "
            "section [runs] of the reward's config"
        )

    def _shards(self, folder: Path) -> Shards:
        """Return the RL rows of a run. The run is opened at the first call.

        Raises ShardError if the run cannot be read. Raises ConfigError if its rows lack data that the recipe (the code
        that computes the rewards) needs.
        """
        with self._lock:
            if folder not in self._runs:
                shards = Shards(folder, SIDE, self.settings.home / "rows")
                given = (TRAJECTORY,) if self._has_trajectories else ()
                check_recipe(self.settings.reward, lambda name: name in given or shards.gives(name))
                self._runs[folder] = shards
            return self._runs[folder]


def _asked(
    ready: PreparedRow, texts: Sequence[tuple[str, str]], trajectories: Sequence[Trajectory | None]
) -> PromptResponses:
    """Return a row with the responses to its prompt, ready to be scored.

    ``texts`` are the results of :meth:`PreparedRow.in_pixels` for the responses. ``trajectories`` holds the results of
    the code in each response; None for a response whose code is not executed.
    """
    executed = tuple(trajectories) if any(each is not None for each in trajectories) else ()
    in_pixels, faults = tuple(text for text, _ in texts), tuple(fault for _, fault in texts)
    return PromptResponses(ready.row, ready.question, in_pixels, executed, faults)
