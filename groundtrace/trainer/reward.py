"""The reward of rollouts: a recipe of :mod:`groundtrace.rewards.recipes` on what the policy wrote.

A response is decoded, its tags are brought from the model's frame to original pixels, and the recipe scores the group.
What can be pointed at stands in the row.

A judge or detector that does not answer is no verdict. The trainer waits and asks again (what was answered comes from
the reply cache), and stops when it has waited long enough.

Nothing here imports torch or transformers: the rewards of other trainers (:mod:`groundtrace.publishing.rewards`) are
this one.
"""

import asyncio
import hashlib
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import WeakValueDictionary

from groundtrace.inference.endpoint import check_extras, is_real
from groundtrace.inference.errors import Failure
from groundtrace.inference.preflight import Health, check_roles, healths
from groundtrace.inference.runtime import runtime
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards.case import Case, case_of
from groundtrace.rewards.locating import ObjectMasks, served_by
from groundtrace.rewards.recipes.base import Earned, Judged, Memory
from groundtrace.rewards.rubrics import empty_stratum
from groundtrace.schemas.config import ConfigError
from groundtrace.schemas.records import FrameRef, MediaRef, Question, Verdict
from groundtrace.schemas.responses.response import MAX_RESPONSE_CHARS
from groundtrace.schemas.responses.speech import Size, Speech
from groundtrace.schemas.responses.traces import read_trace
from groundtrace.schemas.text import counted
from groundtrace.trainer.settings import RewardSettings
from groundtrace.trainer.shards import BadRow, FrameOf, Shards, TrainingRow, sizes_of
from groundtrace.trainer.streams import together
from groundtrace.vision.decode import UndecodableMedia, decode_image
from groundtrace.vision.media import MediaStore

FIRST_WAIT_S = 2.0
MAX_WAIT_S = 60.0
WHERE = "reward."
"""What the keys of a reward's endpoints begin with in its config."""
_DOWN = frozenset({Failure.UNAUTHORISED, Failure.AWAY})
"""Failures that sending again at once does not help, and that are nothing that a response could do."""


class JudgesDown(RuntimeError):
    """Endpoints of the reward did not answer, for as long as they were waited for."""


@dataclass(frozen=True)
class Scored:
    """What a response earned: the recipe's ``reward``, and the raw ``outcome``; None is unscored.

    ``text`` is the response in original pixels.
    """

    reward: float | None
    outcome: float | None
    text: str
    verdicts: tuple[Verdict, ...]

    def value(self, name: str) -> float | None:
        """The value of one verdict, None where it is unscored or was not given."""
        return next((verdict.value for verdict in self.verdicts if verdict.name == name), None)


@dataclass(frozen=True)
class Asked:
    """A prompt's row, its question with media, and the responses in original pixels."""

    row: TrainingRow
    question: Question
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Readied:
    """A row whose media were written, with their ``sizes`` in pixels; ``row`` no longer holds them."""

    row: TrainingRow
    question: Question
    sizes: tuple[Size, ...]

    def answered(self, texts: Iterable[str], speech: Speech) -> Asked:
        """The row with responses as a model wrote them that has this ``speech``."""
        return Asked(self.row, self.question, tuple(self.in_pixels(text, speech) for text in texts))

    def in_pixels(self, text: str, speech: Speech) -> str:
        """A response in original pixels; one that is too long to be read stays as it is."""
        return speech.to_pixels(text, self.sizes) if self.sizes and len(text) <= MAX_RESPONSE_CHARS else text


Part = Sequence[Asked]
"""Prompts of one question whose responses are scored together: one, or one for each stream that it is asked in."""


def check_recipe(settings: RewardSettings, gives: Callable[[str], bool]) -> None:
    """Refuses data and endpoints without which the recipe could score nothing; ``gives`` says of a field of a
    :class:`groundtrace.rewards.case.Context` whether any row has it. Raises ConfigError.
    """
    recipe = settings.make_recipe()
    absent = [role for role in recipe.roles if role not in settings.played]
    if absent:
        raise ConfigError(f"reward.recipe = {recipe.name!r} asks the role {absent[0]}: set reward.roles.{absent[0]}")
    recipe.check_served(settings.roles)
    missing = [what for name, what in recipe.needs.items() if not gives(name)]
    if missing:
        raise ConfigError(f"reward.recipe = {recipe.name!r} needs {missing[0]}, which no row of the data has")


def reads_text(settings: RewardSettings) -> bool:
    """Whether a judge grades free text; the embedded engine does not."""
    judge = settings.played.get("judge")
    return judge is not None and is_real(settings.endpoints[judge])


def check_judge(settings: RewardSettings, shards: Shards) -> str | None:
    """What to know of rows whose gold answer is free text where no judge reads it: their right answers alone would be
    scored, so they are left out. None where there are none. Raises ConfigError where no other rows are there.
    """
    found = 0 if reads_text(settings) else shards.count_free_text()
    if not found:
        return None
    said = f"{found} of {counted(len(shards), 'row')} with free text as gold answer"
    if found == len(shards):
        raise ConfigError(f"{said}, and no judge reads them: set reward.roles.judge to an endpoint that does")
    return f"{said} left out, for no judge reads them: set reward.roles.judge to an endpoint that does"


def note_strata(settings: RewardSettings, shards: Shards) -> str | None:
    """What to know of rows whose rubrics leave a stratum empty, where the recipe rewards by them; None without any."""
    if "rubrics" not in settings.make_recipe().needs:
        return None
    single = Counter(strata for strata in shards.strata if len(strata) == 1)
    if not single:
        return None
    [(strata, found)] = single.most_common(1)
    whose = "" if found == len(shards) else f"{found} of {counted(len(shards), 'row')}: "
    return f"{whose}{empty_stratum(strata)}"


class Reward:
    """Scores responses by the recipe that the settings name; its media and replies are kept in the run's folder.

    ``memory`` is what the recipe has learned so far. ``fails_fast``: calls to a server that is known to be away fail at
    once, for a caller that does not wait and looks at :meth:`health` now and then. Raises
    :class:`groundtrace.schemas.extras.MissingExtra` for an endpoint whose packages are not installed.
    """

    def __init__(self, settings: RewardSettings, output: Path, fails_fast: bool = False) -> None:
        check_extras(settings.endpoints[name] for name in settings.played.values())
        self._settings = settings
        self.recipe = settings.make_recipe()
        self.memory = Memory()
        self._media = MediaStore(str(output), str(output))
        self._models = ModelsSettings(
            tuple(settings.endpoints.items()),
            tuple(settings.played.items()),
            str(output / "cache" / "replies.sqlite"),
            str(output),
            str(output),
            fails_fast=fails_fast,
        )
        self._asks = tuple(dict.fromkeys(ask for scorer in self.recipe.runs for ask in scorer.asks))
        self._in_use: WeakValueDictionary[Question, ObjectMasks] = WeakValueDictionary()
        self._served = served_by(self._models, settings.synthetic_sources, makers=("policy",))
        self._known: dict[tuple[Question, tuple[FrameOf, ...], tuple[str, ...]], tuple[Question, tuple[Size, ...]]] = {}

    def check_endpoints(self) -> None:
        """Opens the endpoint of each role that the recipe asks, and asks it once, cheaply, whether it serves.

        Raises :class:`groundtrace.inference.preflight.NotServed`: one line that says which role's does not, and what to
        do.
        """
        runtime().submit(check_roles(runtime().models(self._models), self._asks, WHERE)).result()

    async def health(self) -> tuple[Health, ...]:
        """The endpoints of the recipe's roles, looked at now; on the event loop of
        :mod:`groundtrace.inference.runtime`.
        """
        return await healths(runtime().models(self._models), self._asks, WHERE)

    def score(self, speech: Speech, rows: Sequence[TrainingRow], texts: Sequence[Sequence[str]]) -> list[list[Scored]]:
        """The scores of each row's responses, in order; ``texts`` are as a model wrote them that has this ``speech``.

        The streams of one question, which stand side by side, are scored together.

        Raises JudgesDown when endpoints do not answer for ``wait_s``, and BadRow for an image that does not decode.
        """
        asked = [self.ready(row).answered(responses, speech) for row, responses in zip(rows, texts, strict=True)]
        parts = self.wait_for([[asked[place] for place in places] for places in together(rows)])
        return [scored for part in parts for scored in part]

    def ready(self, row: TrainingRow) -> Readied:
        """The row with its media written once to the run's folder, upright. Raises BadRow for an image that does not
        decode.
        """
        key = (row.question, row.frames, tuple(hashlib.sha256(data).hexdigest() for data, _ in row.images))
        if key not in self._known:
            refs = [self._media_ref(row, place, sha256) for place, sha256 in enumerate(key[2])]
            question = replace(row.question, media=media_of(refs, row.frames))
            self._known[key] = question, tuple(sizes_of(row, refs))
        return Readied(replace(row, images=()), *self._known[key])

    def wait_for(self, parts: Sequence[Part]) -> list[list[list[Scored]]]:
        """The scores of each prompt's responses, in order. Raises JudgesDown as :meth:`score` does."""
        deadline_s, wait_s = time.monotonic() + self._settings.wait_s, FIRST_WAIT_S
        found: dict[int, list[list[Scored]]] = {}
        while True:
            left = [place for place in range(len(parts)) if place not in found]
            tried = runtime().submit(self.attempt([parts[place] for place in left])).result()
            found |= {place: each for place, each in zip(left, tried, strict=True) if isinstance(each, list)}
            down = [each for each in tried if isinstance(each, JudgesDown)]
            if not down:
                return [found[place] for place in range(len(parts))]
            if time.monotonic() + wait_s > deadline_s:
                raise JudgesDown(f"no answer for {self._settings.wait_s:g} s: {down[0]}")
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, MAX_WAIT_S)

    async def attempt(self, parts: Sequence[Part]) -> list[list[list[Scored]] | JudgesDown]:
        """What each part's responses earned, or that endpoints did not answer which they need; nothing is waited for.

        Runs on the event loop of :mod:`groundtrace.inference.runtime`.
        """
        models = runtime().models(self._models)
        return list(await asyncio.gather(*(self._attempt(part, Session(models)) for part in parts)))

    def close(self) -> None:
        """Close the reply cache and the connections."""
        runtime().close(self._models)

    async def _attempt(self, part: Part, session: Session) -> list[list[Scored]] | JudgesDown:
        scored = await self._scored(part, session)
        down = [error for error in session.failures if error.retryable or error.failure in _DOWN]
        return JudgesDown(f"{counted(len(down), 'call')} failed: {down[0]}") if down else scored

    async def _scored(self, part: Part, session: Session) -> list[list[Scored]]:
        """The scores of one question's responses, for each prompt that it was asked in."""
        masks = self._masks(part[0].question, session)
        groups = [_cases(asked.row, asked.texts, masks) for asked in part]
        cases = [case for group in groups for case in group]
        earned = iter(zip(cases, await self.recipe.score(cases, self.memory), strict=True))
        return [
            [
                Scored(each.reward, each.outcome, case.text, each.verdicts)
                for case, each in itertools.islice(earned, len(group))
            ]
            for group in groups
        ]

    def _masks(self, question: Question, session: Session) -> ObjectMasks:
        """The question's objects; what is found for one part is known to the others that are scored meanwhile."""
        known = self._in_use.get(question)
        masks = ObjectMasks(question, session, self._served) if known is None else replace(known, caller=session)
        self._in_use[question] = masks
        return masks

    def learn(self, step: Iterable[tuple[TrainingRow, Sequence[Scored]]]) -> None:
        """Enter the rows of a step, each with what its responses earned, in the memory, once the step is done."""
        judged = [
            Judged(row.id, each.text, row.context, Earned(each.reward, each.verdicts))
            for row, scored in step
            for each in scored
        ]
        self.memory = self.recipe.learn(self.memory, judged)

    def _media_ref(self, row: TrainingRow, place: int, sha256: str) -> MediaRef:
        data, name = row.images[place]
        try:
            decoded = decode_image(data)
        except UndecodableMedia as error:
            raise BadRow(f"{row.id}: image {place + 1} does not decode: {error}") from error
        suffix = Path(name).suffix.lstrip(".").lower()
        uri = self._media.write_drawn(data, suffix if suffix.isalnum() and suffix.isascii() else "bin")
        return MediaRef(uri, "image", sha256, "", "", decoded.width, decoded.height, decoded.orientation, len(data))


def _cases(row: TrainingRow, texts: Sequence[str], masks: ObjectMasks) -> list[Case]:
    traces = [read_trace(index, text, masks.question.media) for index, text in enumerate(texts)]
    return [replace(case_of(trace, masks, row.entities, row.pointable), context=row.context) for trace in traces]


def media_of(refs: Sequence[MediaRef], frames: Sequence[FrameOf]) -> tuple[MediaRef, ...]:
    """The media that a row's images show: the images themselves, or the clips whose frames they are.

    ``frames`` says for each image which medium it belongs to, and of a frame its number and time; empty without clips.
    """
    if not frames:
        return tuple(refs)
    media: dict[int, MediaRef] = {}
    for ref, (index, number, t_s) in zip(refs, frames, strict=True):
        if number is None or t_s is None:
            media[index] = ref
            continue
        frame = FrameRef(number, t_s, ref.uri, ref.sha256, ref.size_bytes)
        clip = media.get(index, replace(ref, kind="video"))
        media[index] = replace(clip, frames=(*clip.frames, frame))
    return tuple(media[index] for index in sorted(media))
