"""Records, drawn scenes, drafts, and stages run on Beam's in-process portable runner."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import apache_beam as beam
import cv2
import numpy as np
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import equal_to

from groundtrace.embedded.roles import embedded_endpoints, embedded_roles
from groundtrace.inference.runtime import runtime
from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.schemas.records import Draft, MediaRef, Question
from groundtrace.stages.plumbing.options import Options
from groundtrace.vision.checked_medium import check_medium
from groundtrace.vision.media import MediaStore

from .matching import assert_that

RECORD = {
    "id": "q",
    "source": "drawn",
    "license": "CC0-1.0",
    "media": "a.png",
    "question": "How many squares are there?",
    "answer": "3",
}
COLOURS = {"red": (220, 30, 30), "blue": (0, 153, 255), "yellow": (255, 255, 0), "black": (0, 0, 0)}


def _draw(squares: Sequence[str], width: int = 160, height: int = 80) -> np.ndarray:
    """Squares of the named colours in a row on light grey, as RGB."""
    picture = np.full((height, width, 3), 211, np.uint8)
    for index, colour in enumerate(squares):
        left = 8 + 24 * index
        picture[30:50, left : left + 20] = COLOURS[colour]
    return picture


@pytest.fixture(scope="session")
def record() -> Callable[..., dict[str, Any]]:
    """A valid record with changes; a field set to ``...`` is left out."""

    def changed(**changes: Any) -> dict[str, Any]:
        return {name: value for name, value in (RECORD | changes).items() if value is not ...}

    return changed


@pytest.fixture(scope="session")
def write_records() -> Callable[[Path, Iterable[Mapping[str, Any] | bytes]], Path]:
    """Write ``records.jsonl``; a row given as bytes stands there as it is, line end included."""

    def write(folder: Path, rows: Iterable[Mapping[str, Any] | bytes]) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows]
        (folder / "records.jsonl").write_bytes(b"".join(lines))
        return folder

    return write


@pytest.fixture(scope="session")
def draw_scene() -> Callable[..., np.ndarray]:
    """Draw squares of the named colours; see :func:`_draw`."""
    return _draw


@pytest.fixture(scope="session")
def write_scene() -> Callable[..., Path]:
    """Draw a scene and write it as the extension of ``path`` says."""

    def write(path: Path, squares: Sequence[str] = ("red", "blue", "black"), **size: int) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), _draw(squares, **size)[:, :, ::-1])
        return path

    return write


@pytest.fixture(scope="session")
def make_draft() -> Callable[..., Draft]:
    """A draft of a text question; ``folder`` and ``media`` make it refer to real files."""

    def make(question_id: str, folder: Path | None = None, media: Sequence[str] = (), **fields: Any) -> Draft:
        refs: list[MediaRef] = []
        for name in media:
            checked = check_medium(f"input:{name}", MediaStore(str(folder), str(folder)))
            assert checked.ref is not None, checked.detail
            refs.append(checked.ref)
        values = {"question": "How many squares are there?", "answer": "3", "answer_type": "numeric"} | fields
        return Draft(Question(id=question_id, source="drawn", license="CC0-1.0", media=tuple(refs), **values))

    return make


@pytest.fixture(scope="session")
def check_stage() -> Callable[..., None]:
    """Run a stage on elements (or as a root) and assert what leaves it.

    ``kept`` and ``rejected`` are what is expected of the two outputs, in any order, after ``show`` and
    ``show_rejected`` have made the elements comparable.
    """

    def run(
        stage: beam.PTransform,
        elements: Sequence[Any] | None,
        kept: Iterable[Any],
        rejected: Iterable[Any],
        show: Callable[[Any], Any] = lambda draft: draft.id,
        show_rejected: Callable[[Any], Any] = lambda found: (found.id, found.stage, found.reason),
    ) -> None:
        with beam.Pipeline(FnApiRunner(), Options([])) as pipeline:
            source = pipeline if elements is None else pipeline | "Elements" >> beam.Create(list(elements))
            outputs = source | "Stage" >> stage
            assert_that(outputs["kept"] | "ShowKept" >> beam.Map(show), equal_to(list(kept)), "Kept")
            shown = outputs["rejected"] | "ShowRejected" >> beam.Map(show_rejected)
            assert_that(shown, equal_to(list(rejected)), "Rejected")

    return run


CUT = "✂"
"""The end of a reply that a server cuts off at the limit of tokens."""


class Chat(BaseHTTPRequestHandler):
    """A server that speaks OpenAI's chat API; ``server.says`` gives the replies to a prompt's text, of which one that
    ends in :data:`CUT` is cut off there.
    """

    server: Any

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = "\n".join(part["text"] for part in body["messages"][-1]["content"] if part["type"] == "text")
        texts = [self.server.says(prompt, sample) for sample in range(body["n"])]
        messages = [
            {
                "message": {"role": "assistant", "content": text.removesuffix(CUT)},
                "finish_reason": "length" if text.endswith(CUT) else "stop",
            }
            for text in texts
        ]
        choices = [{"index": index} | message for index, message in enumerate(messages)]
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        reply = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": choices}
        self.wfile.write(json.dumps(reply).encode())


@pytest.fixture
def models(tmp_path: Path) -> Iterator[Callable[..., ModelsSettings]]:
    """Settings: the embedded engine in every role, but the server, which ``says``, in the ``roles`` named.

    A bad reply is asked for again ``repair_attempts`` times, by default never: most tests are about what a stage makes
    of one.
    """
    with ThreadingHTTPServer(("127.0.0.1", 0), Chat) as http:
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        url = f"http://127.0.0.1:{http.server_port}/v1"
        folders = str(tmp_path / "replies.sqlite"), str(tmp_path), str(tmp_path / "run")

        def build(*roles: str, says: Callable[[str, int], str] = str, repair_attempts: int = 0) -> ModelsSettings:
            http.says = says  # type: ignore[attr-defined]
            server = EndpointSettings("openai", "m", base_url=url, max_retries=0, repair_attempts=repair_attempts)
            played = embedded_roles() | {"policy": "colour"} | dict.fromkeys(roles, "server")
            return ModelsSettings((*embedded_endpoints().items(), ("server", server)), tuple(played.items()), *folders)

        yield build
        runtime().close_all()
        http.shutdown()
