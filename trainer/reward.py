"""The reward of rollouts: a recipe of :mod:`rewards.recipes` on what the policy wrote.

A response is decoded, its tags are brought from the model's frame to original pixels, and the recipe scores the group.
What can be pointed at stands in the row.

A judge or detector that does not answer is no verdict. The trainer waits and asks again (what was answered comes from
the reply cache), and stops when it has waited long enough.
"""

import asyncio
import hashlib
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from inference.endpoint import check_extras, is_real
from inference.errors import Failure
from inference.runtime import runtime
from inference.session import Session
from inference.settings import ModelsSettings
from rewards.case import Case, case_of
from rewards.locating import ObjectMasks, served_by
from rewards.recipes.base import Earned, Judged, Memory
from schemas.config import ConfigError
from schemas.records import FrameRef, MediaRef, Question
from schemas.responses.traces import read_trace
from schemas.text import counted
from trainer.group import Group, Scored
from trainer.model import VisionLanguageModel
from trainer.sample import EncodedImage, Sample
from trainer.settings import RewardSettings
from trainer.shards import FrameOf, Shards, TrainingRow, sizes_of
from trainer.streams import together
from vision.decode import decode_image
from vision.media import MediaStore

Asked = tuple[TrainingRow, Question, list[str]]
"""A prompt's row, its question with media, and the responses in original pixels."""
FIRST_WAIT_S = 2.0
MAX_WAIT_S = 60.0


class JudgesDown(RuntimeError):
    """Endpoints of the reward did not answer for as long as the trainer waits."""


def check_recipe(settings: RewardSettings, gives: Callable[[str], bool]) -> None:
    """Refuses data and endpoints without which the recipe could score nothing; ``gives`` says of a field of a
    :class:`rewards.case.Context` whether any row has it. Raises ConfigError.
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


class Reward:
    """Scores responses by the recipe that the settings name; its media and replies are kept in the run's folder.

    ``memory`` is what the recipe has learned so far. Raises :class:`schemas.extras.MissingExtra` for an endpoint whose
    packages are not installed.
    """

    def __init__(self, settings: RewardSettings, output: Path) -> None:
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
        )
        self._served = served_by(self._models, settings.synthetic_sources, makers=("policy",))
        self._known: dict[tuple[Question, tuple[str, ...]], Question] = {}

    def score(
        self,
        vlm: VisionLanguageModel,
        rows: Sequence[TrainingRow],
        prompts: Sequence[Sample],
        texts: Sequence[Sequence[str]],
    ) -> list[list[Scored]]:
        """The scores of each row's responses, in order; ``texts`` are as the model wrote them.

        The streams of one question, which stand side by side, are scored together.

        Raises JudgesDown when endpoints do not answer for ``wait_s``.
        """
        questions = [self._question(row, prompt.images) for row, prompt in zip(rows, prompts, strict=True)]
        asked = [
            (row, question, [_in_pixels(vlm, text, sizes_of(row, prompt.images)) for text in responses])
            for row, question, prompt, responses in zip(rows, questions, prompts, texts, strict=True)
        ]
        deadline_s, wait_s = time.monotonic() + self._settings.wait_s, FIRST_WAIT_S
        while True:
            session = Session(runtime().models(self._models))
            found = runtime().submit(self._all(asked, session)).result()
            down = [error for error in session.failures if error.retryable or error.failure is Failure.UNAUTHORISED]
            if not down:
                return found
            if time.monotonic() + wait_s > deadline_s:
                raise JudgesDown(f"no answer for {self._settings.wait_s:g} s ({len(down)} calls): {down[0]}")
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, MAX_WAIT_S)

    def close(self) -> None:
        """Close the reply cache and the connections."""
        runtime().close(self._models)

    async def _all(self, asked: Sequence[Asked], session: Session) -> list[list[Scored]]:
        parts = [[asked[place] for place in places] for places in together([row for row, _, _ in asked])]
        found = await asyncio.gather(*(self._question_of(part, session) for part in parts))
        return [scored for part in found for scored in part]

    async def _question_of(self, asked: Sequence[Asked], session: Session) -> list[list[Scored]]:
        """The scores of one question's responses, for each prompt that it was asked in."""
        masks = ObjectMasks(asked[0][1], session, self._served)
        groups = [_cases(row, texts, masks) for row, _, texts in asked]
        cases = [case for group in groups for case in group]
        earned = iter(zip(cases, await self.recipe.score(cases, self.memory), strict=True))
        return [
            [
                Scored(each.reward, each.outcome, case.text, each.verdicts)
                for case, each in itertools.islice(earned, len(group))
            ]
            for group in groups
        ]

    def learn(self, groups: Sequence[Group]) -> None:
        """Enter the groups of a step in the memory, once the step is done."""
        step = [
            Judged(group.row.id, scored.text, group.row.context, Earned(scored.reward, scored.verdicts))
            for group in groups
            for scored in group.scored
        ]
        self.memory = self.recipe.learn(self.memory, step)

    def _question(self, row: TrainingRow, images: Sequence[EncodedImage]) -> Question:
        """The row's question with its media, written once to the run's folder, upright."""
        key = (row.question, tuple(image.key for image in images))
        if key in self._known:
            return self._known[key]
        refs = [self._media_ref(data, name, image) for (data, name), image in zip(row.images, images, strict=True)]
        question = self._known[key] = replace(row.question, media=media_of(refs, row.frames))
        return question

    def _media_ref(self, data: bytes, name: str, image: EncodedImage) -> MediaRef:
        suffix = Path(name).suffix.lstrip(".").lower()
        uri = self._media.write_drawn(data, suffix if suffix.isalnum() and suffix.isascii() else "bin")
        sha256, turned = hashlib.sha256(data).hexdigest(), decode_image(data).orientation
        return MediaRef(uri, "image", sha256, "", "", image.width, image.height, turned, len(data))


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


def _in_pixels(vlm: VisionLanguageModel, text: str, sizes: Sequence[tuple[int, int]]) -> str:
    return vlm.speech.to_pixels(text, sizes) if sizes else text
