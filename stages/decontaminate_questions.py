"""Decontaminates the questions: rejects questions that overlap with the records of a benchmark.

The inputs are drafts (questions with their data). A draft is rejected if its question and the question of a benchmark
record have ``ngram`` (by default 13) consecutive words in common. It is also rejected if it has an image in common with
a benchmark record. Two images count as the same image even if one of them was encoded again or scaled
(:func:`groundtrace.vision.hashing.same_image`). The rejection names the benchmark record. All other drafts pass.
Without a benchmark folder every draft passes.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import NonNegativeInt, PositiveInt

from groundtrace.config.settings import settings
from groundtrace.schemas.json_lines import NotAnObject, parse_object, read_lines
from groundtrace.schemas.records import Draft, MediaRef
from groundtrace.stages.plumbing.stage import DraftStage, Reject, Stage, Work
from groundtrace.vision.checked_medium import UNSUPPORTED_MEDIA, check_medium
from groundtrace.vision.hashing import hamming, same_image
from groundtrace.vision.media import STAGE_CACHE_BYTES, MediaRoots, MediaStore

CONTAMINATED = "contaminated"
_WORD = re.compile(r"\w+")


@settings
class DecontaminateSettings:
    """Holds the benchmark's folder, and the limits that define an overlap with the benchmark."""

    benchmark: Annotated[str, "the benchmark's folder, which holds records.jsonl (empty: none)"] = ""
    ngram: Annotated[PositiveInt, "the number of shared words in a row that make an overlap"] = 13
    max_distance: Annotated[
        NonNegativeInt, "two images count as the same if their hashes differ in at most this number of bits"
    ] = 4

    def __post_init__(self) -> None:
        if self.benchmark and not (Path(self.benchmark) / "records.jsonl").is_file():
            raise ValueError(
                f"benchmark: there is no file {self.benchmark}/records.jsonl: set benchmark to the folder that "
                "holds this file"
            )
        if self.benchmark:
            check_benchmark(self.benchmark)


def benchmark_records(folder: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Read the records of a benchmark, and yield the line number and the fields of each record.

    ``folder`` is the benchmark's folder, which has a file ``records.jsonl``. Raises ValueError for a line that is not a
    JSON object.
    """
    path = Path(folder) / "records.jsonl"
    with path.open("rb") as stream:
        for number, text in read_lines(stream):
            try:
                yield number, parse_object(text)
            except NotAnObject as error:
                raise ValueError(
                    f"benchmark: line {number} of {path} cannot be used ({error}): write one JSON object on this line"
                ) from error


def check_benchmark(folder: str) -> None:
    """Check that all records and media of the benchmark in ``folder`` can be used. Raises ValueError otherwise.

    Without this check, overlaps with an unusable record or medium would not be found. A record must have a question or
    media. The file of each medium must exist, and must be an image or a clip.
    """
    store = MediaStore(folder, folder)
    for number, fields in benchmark_records(folder):
        where = f"benchmark: line {number}"
        uris = benchmark_media(fields, where)
        if not uris and not fields.get("question"):
            raise ValueError(f"{where} has neither a question nor media: add the field 'question' or 'media'")
        for uri in uris:
            try:
                kind = store.kind_of(uri)
            except OSError as error:
                raise ValueError(
                    f"{where}: the medium {uri} cannot be read ({error}): add the file, or remove it from 'media'"
                ) from error
            if kind is None:
                raise ValueError(f"{where}: {uri} is neither an image nor a clip: remove it from 'media'")


def benchmark_media(fields: Mapping[str, object], where: str) -> list[str]:
    """Return the URIs of a benchmark record's media. The list is empty if the record has no media.

    ``fields`` are the fields of the record. ``where`` names the record in errors. Raises ValueError if the field
    ``media`` does not hold paths. Also raises ValueError if the record has no ``media`` but has a field ``image`` or
    ``images``, which would be ignored.
    """
    media = fields.get("media") or []
    paths = [media] if isinstance(media, str) else media
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise ValueError(f"{where}: the field 'media' must hold a path or a list of paths, got {media!r:.80}")
    unread = next((name for name in ("image", "images") if fields.get(name) and not paths), None)
    if unread:
        raise ValueError(f"{where} has no field 'media': rename its field '{unread}' to 'media'")
    return [f"input:{path}" for path in paths]


def ngrams(text: str, n: int) -> Iterator[tuple[str, ...]]:
    """Yield every sequence of ``n`` consecutive words in the text, in lower case and without punctuation.

    A text of fewer than ``n`` words has no such sequence.
    """
    words = _WORD.findall(text.casefold())
    for start in range(len(words) - n + 1):
        yield tuple(words[start : start + n])


@dataclass
class BenchmarkIndex:
    """Holds the content of a benchmark with which questions are compared.

    ``grams`` maps each word sequence in the benchmark's questions to the id of a record that contains it. ``media`` is
    a list of pairs: the id of a record, and the reference to one of its images.
    """

    grams: dict[tuple[str, ...], str] = field(default_factory=dict)
    media: list[tuple[str, MediaRef]] = field(default_factory=list)

    @classmethod
    def load(cls, settings: DecontaminateSettings) -> "BenchmarkIndex":
        """Read the benchmark in the folder that the settings name, and return its index.

        The index holds the questions and the images of the records, but not their clips. A record needs no answer.
        Raises ValueError for an image that cannot be decoded.
        """
        index, store = cls(), MediaStore(settings.benchmark, settings.benchmark)
        for number, fields in benchmark_records(settings.benchmark):
            where = f"decontaminate.benchmark: line {number}"
            index.add(str(fields.get("id", f"line {number}")), fields, settings.ngram, store, where)
        return index

    def add(self, record_id: str, fields: Mapping[str, object], ngram: int, store: MediaStore, where: str) -> None:
        """Add one record's question and images to the index.

        ``record_id`` is the id of the record, and ``fields`` are its fields. ``ngram`` is the number of words in each
        word sequence of the index. ``store`` opens the images. ``where`` names the record in errors. Raises ValueError
        for an image that cannot be decoded.
        """
        for gram in ngrams(str(fields.get("question") or ""), ngram):
            self.grams.setdefault(gram, record_id)
        for uri in benchmark_media(fields, where):
            checked = check_medium(uri, store)
            if checked.ref is not None:
                self.media.append((record_id, checked.ref))
            elif checked.reason != UNSUPPORTED_MEDIA:
                raise ValueError(
                    f"{where}: the medium {uri} cannot be used ({checked.detail}): correct it, or remove it "
                    "from 'media'"
                )


class _Decontaminate:
    """Compares drafts (questions with their data) with a benchmark, which each worker reads once."""

    def __init__(self, settings: DecontaminateSettings, roots: MediaRoots) -> None:
        self._settings = settings
        self._index: BenchmarkIndex | None = None
        self._store = roots.store()
        self._benchmark = MediaStore(settings.benchmark, settings.benchmark, cache_bytes=STAGE_CACHE_BYTES)

    def __call__(self, draft: Draft) -> Draft:
        if self._index is None:
            self._index = BenchmarkIndex.load(self._settings)
        for gram in ngrams(draft.question.question, self._settings.ngram):
            if gram in self._index.grams:
                shared = f"with the benchmark's {self._index.grams[gram]!r}: {' '.join(gram)}"
                detail = f"the question shares {self._settings.ngram} words {shared}"
                raise Reject(CONTAMINATED, detail)
        for medium in draft.question.media:
            for benchmark_id, theirs in self._index.media:
                if self._same(medium, theirs):
                    raise Reject(CONTAMINATED, f"the question shares an image with the benchmark's {benchmark_id!r}")
        return draft

    def _same(self, medium: MediaRef, theirs: MediaRef) -> bool:
        if medium.pixel_sha256 == theirs.pixel_sha256:
            return True
        if hamming(int(medium.dhash, 16), int(theirs.dhash, 16)) > self._settings.max_distance:
            return False
        if len(medium.image_uris) != len(theirs.image_uris):
            return False
        pairs = zip(medium.image_uris, theirs.image_uris, strict=True)
        return all(same_image(self._store.pixels(a), self._benchmark.pixels(b)) for a, b in pairs)


STAGE = Stage(
    "decontaminate",
    "questions that overlap a benchmark are dropped, where one was given",
    reasons={CONTAMINATED: "overlaps a benchmark record"},
    settings=DecontaminateSettings,
)


@dataclass
class DecontaminateQuestions(DraftStage):
    """Stage (pipeline step) that rejects questions that have consecutive words or an image in common with a benchmark
    record.

    ``roots`` holds the data folder and the run folder of the questions' images.
    """

    settings: DecontaminateSettings
    roots: MediaRoots
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function rejects the draft if its
        question or image is also in the benchmark.

        Without a benchmark, it lets every draft pass.
        """
        return _Decontaminate(self.settings, self.roots) if self.settings.benchmark else _pass


def _pass(draft: Draft) -> Draft:
    return draft
