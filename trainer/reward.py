"""The ``argos`` reward of rollouts: the verifier that curates traces, on what the policy wrote (Argos Eq. 1–9).

A response is decoded, its tags are brought from the model's frame to original pixels, and the verifier scores it. A
response that does not point although there is something to point at has spatial score 0: pointing at nothing is no way
around the grounding term. There ``something to point at`` is what the row's gold boxes or right attempts show.

A judge or detector that does not answer is no verdict. The trainer waits for it and asks again, what was answered
coming from the reply cache, and stops when it has waited long enough.
"""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from inference.endpoint import check_extras
from inference.errors import Failure
from inference.runtime import runtime
from inference.session import Session
from inference.settings import ModelsSettings
from rewards.case import case_of
from rewards.locating import ObjectMasks, served_by
from rewards.verifier import verify
from schemas.records import FrameRef, MediaRef, Question, Verdict
from schemas.responses.traces import read_trace
from trainer.model import VisionLanguageModel
from trainer.sample import Picture, Sample
from trainer.settings import RewardSettings
from trainer.shards import FrameOf, TrainingRow, sizes_of
from vision.decode import decode_image
from vision.media import MediaStore

FIRST_WAIT_S = 2.0
LONGEST_WAIT_S = 60.0


class JudgesDown(RuntimeError):
    """Endpoints of the reward did not answer for as long as the trainer waits."""


@dataclass(frozen=True)
class Scored:
    """What a response earned: ``reward`` is Eq. 9's score, ``outcome`` its raw first term; None is unscored.

    ``text`` is the response in original pixels.
    """

    reward: float | None
    outcome: float | None
    text: str
    verdicts: tuple[Verdict, ...]

    def value(self, name: str) -> float | None:
        """The value of one verdict, None where it is unscored or was not given."""
        return next((verdict.value for verdict in self.verdicts if verdict.name == name), None)


class ArgosReward:
    """Scores responses; its media and replies are kept in the run's folder.

    Raises :class:`schemas.extras.MissingExtra` for an endpoint whose packages are not installed.
    """

    def __init__(self, settings: RewardSettings, output: Path) -> None:
        check_extras(settings.endpoints[name] for name in settings.roles.values())
        self._settings = settings
        self._media = MediaStore(str(output), str(output))
        self._models = ModelsSettings(
            tuple(settings.endpoints.items()),
            tuple(settings.roles.items()),
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

        Raises JudgesDown when endpoints do not answer for ``wait_s``.
        """
        questions = [self._question(row, prompt.pictures) for row, prompt in zip(rows, prompts, strict=True)]
        asked = [
            (row, question, [_in_pixels(vlm, text, sizes_of(row, prompt.pictures)) for text in responses])
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
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    def close(self) -> None:
        """Close the reply cache and the connections."""
        runtime().close(self._models)

    async def _all(
        self, asked: Sequence[tuple[TrainingRow, Question, list[str]]], session: Session
    ) -> list[list[Scored]]:
        return list(
            await asyncio.gather(*(self._group(row, question, texts, session) for row, question, texts in asked))
        )

    async def _group(self, row: TrainingRow, question: Question, texts: list[str], session: Session) -> list[Scored]:
        masks = ObjectMasks(question, session, self._served)

        async def one(index: int, text: str) -> Scored:
            case = case_of(read_trace(index, text, question.media), masks, pointable=bool(row.pointed))
            verified = await verify(case, self._settings.gate)
            outcome = next(verdict.value for verdict in verified.verdicts if verdict.name == "outcome")
            return Scored(verified.score, outcome, case.text, verified.verdicts)

        return list(await asyncio.gather(*(one(*each) for each in enumerate(texts))))

    def _question(self, row: TrainingRow, pictures: Sequence[Picture]) -> Question:
        """The row's question with its media, written once to the run's folder, upright."""
        key = (row.question, tuple(picture.key for picture in pictures))
        if key in self._known:
            return self._known[key]
        refs = [
            self._media_ref(data, name, picture) for (data, name), picture in zip(row.images, pictures, strict=True)
        ]
        question = self._known[key] = replace(row.question, media=media_of(refs, row.frames))
        return question

    def _media_ref(self, data: bytes, name: str, picture: Picture) -> MediaRef:
        suffix = Path(name).suffix.lstrip(".").lower()
        uri = self._media.write_drawn(data, suffix if suffix.isalnum() and suffix.isascii() else "bin")
        sha256, turned = hashlib.sha256(data).hexdigest(), decode_image(data).orientation
        return MediaRef(uri, "image", sha256, "", "", picture.width, picture.height, turned, len(data))


def media_of(refs: Sequence[MediaRef], frames: Sequence[FrameOf]) -> tuple[MediaRef, ...]:
    """The media that a row's images are: themselves, or clips of which they are the frames.

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
