"""A server with OpenAI's chat API that answers every prompt of the main pipeline by looking at the pictures it is sent.

Its world are clips of coloured squares on grey. It finds a square by its colour, so points, boxes, masks and judgements
are right; of its traces only those are right that a test asks for by their number.
"""

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np

from groundtrace.inference.grounding import encode_mask

COLOURS = {"red": (200, 30, 30), "blue": (30, 30, 200), "green": (30, 160, 30)}
GREY = (150, 150, 150)
WIDTH, HEIGHT, FRAMES, HZ = 160, 120, 24, 10
_MARK = re.compile(r"^(\d+)\. (.+?) \(([\d.]+), ([\d.]+)\) in frame (\d+) \(([\d.]+) s\)$", re.MULTILINE)
_ANCHORED = re.compile(
    r'<points x1="([\d.]+)" y1="([\d.]+)" alt="([^"]+)">[^<]*</points> in (frame (\d+) \(([\d.]+) s\))'
)
_SPAN = re.compile(r"((?:the )?\w+ square moves to the (?:left|right)) (from ([\d.]+) s to ([\d.]+) s)")


def write_clip(path: Path, container: str = "mp4", codec: str = "libx264") -> None:
    """A red square that moves to the right, and from the middle on a blue one that stands still."""
    with av.open(str(path), "w", format=container) as out:
        stream = out.add_stream(codec, rate=HZ)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        if codec == "libx264":
            stream.options = {"crf": "1"}
        for number in range(FRAMES):
            pixels = np.full((HEIGHT, WIDTH, 3), GREY, np.uint8)
            pixels[20:40, 10 + 4 * number : 30 + 4 * number] = COLOURS["red"]
            if number >= FRAMES // 2:
                pixels[80:104, 120:144] = COLOURS["blue"]
            out.mux(stream.encode(av.VideoFrame.from_ndarray(pixels)))
        out.mux(stream.encode(None))


def find(picture: np.ndarray, phrase: str) -> tuple[int, int, int, int] | None:
    """The box (x1, y1, x2, y2) of the square whose colour the phrase names, in pixels."""
    named = next((colour for colour in COLOURS if colour in phrase), None)
    if named is None:
        return None
    near = np.abs(picture.astype(int) - COLOURS[named]).max(axis=2) < 60
    rows, columns = np.nonzero(near)
    if len(rows) < 20:
        return None
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


class ClipWorld:
    """The server's answers; ``asked`` keeps the name of each prompt's schema, or what it begins with."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer = "yes"

    def reply(self, body: dict[str, Any], index: int) -> str:
        """One sample for a request."""
        parts = body["messages"][-1]["content"]
        text = "\n".join(part["text"] for part in parts if part["type"] == "text")
        pictures = [_decode(part["image_url"]["url"]) for part in parts if part["type"] == "image_url"]
        schema = body.get("response_format", {}).get("json_schema", {}).get("name", "").rpartition("_v")[0]
        self.asked.append(schema or text[:20])
        if schema:
            return json.dumps(getattr(self, f"_{schema}")(text, pictures))
        if text.startswith("Point to") or "\nPoint to" in text:
            return self._point(text, pictures[0])
        if "trace" in body.get("model", "") or "Some frames carry numbered marks" in text:
            return self._trace(text, index)
        return f"<think>I look.</think> <answer>{self.answer if index % 2 else 'cannot tell'}</answer>"

    def _point(self, text: str, picture: np.ndarray) -> str:
        entity = re.search(r"Point to every (.+?) in the image", text)
        assert entity is not None
        box = find(picture, entity[1])
        if box is None:
            return "There are none."
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        return f'<points x1="{x:.1f}" y1="{y:.1f}" alt="{entity[1]}">{entity[1]}</points>'

    def _trace(self, text: str, index: int) -> str:
        """Sample 0 points beside the square, sample 1 is right, sample 2 gets the direction wrong."""
        marks = [mark for mark in _MARK.findall(text) if "red" in mark[1]]
        (_, label, x, y, frame, t_s), last = marks[0], marks[-1]
        shift, way = (60 if index == 0 else 0), ("left" if index == 2 else "right")

        def tag(x: str, y: str) -> str:
            return f'<points x1="{float(x):g}" y1="{float(y) + shift:g}" alt="{label}">{label}</points>'

        return (
            f"<think>The {tag(x, y)} in frame {frame} ({t_s} s) is on the left. The {tag(last[2], last[3])} in frame "
            f"{last[4]} ({last[5]} s) is further on. So the red square moves to the {way} from {t_s} s to {last[5]} s."
            f"</think> <answer>{self.answer}</answer>"
        )

    def _propose_video(self, text: str, pictures: list[np.ndarray]) -> dict[str, Any]:
        last = float(re.findall(r"\(([\d.]+) s\)", text)[-1])
        action = {"description": "the red square moves to the right", "start_s": 0.0, "end_s": last}
        return {"entities": ["red square", "blue square"], "actions": [action], "interactions": []}

    def _detect(self, text: str, pictures: list[np.ndarray]) -> dict[str, Any]:
        box = find(pictures[0], text)
        return {"boxes": [list(box)] if box else []}

    def _segment(self, text: str, pictures: list[np.ndarray]) -> dict[str, Any]:
        boxes = json.loads(re.search(r"\[\[.*\]\]", text)[0])  # type: ignore[index]
        masks = [encode_mask(int(x1), int(y1), np.ones((int(y2 - y1), int(x2 - x1)))) for x1, y1, x2, y2 in boxes]
        return {"masks": masks}

    def _judge_answer(self, text: str, pictures: list[np.ndarray]) -> dict[str, Any]:
        return {"reason": "compared", "same": "cannot tell" not in text}

    def _judge_reasoning(self, text: str, pictures: list[np.ndarray]) -> dict[str, Any]:
        return {"reason": "read", "supports": "yes"}

    def _extract_video(self, text: str, pictures: list[np.ndarray]) -> dict[str, Any]:
        """The points with the moments behind them, and what is said to move."""
        points = [
            {"anchor": said, "frame": int(frame), "t_s": float(t_s), "object": label, "x": float(x), "y": float(y)}
            for x, y, label, said, frame, t_s in _ANCHORED.findall(text)
        ]
        segments = [
            {"anchor": said, "first_frame": None, "last_frame": None, "start_s": float(start_s), "end_s": float(end_s)}
            | {"description": description}
            for description, said, start_s, end_s in _SPAN.findall(text)
        ]
        return {"points": points, "frames": [], "segments": segments}

    def _judge_frame(self, text: str, pictures: list[np.ndarray]) -> dict[str, Any]:
        (picture,) = pictures
        return {"reason": "seen", "shown": "no" if find(picture, text) is None else "yes"}

    def _judge_segment(self, text: str, pictures: list[np.ndarray]) -> dict[str, Any]:
        first, last = find(pictures[0], "red"), find(pictures[-1], "red")
        moves_right = first is not None and last is not None and last[0] > first[0]
        return {"reason": "watched", "shown": "yes" if moves_right == ("to the right" in text) else "no"}

    def _rubric_candidates(self, text: str, pictures: list[np.ndarray]) -> dict[str, Any]:
        return {"rubrics": [{"id": "r1", "description": "quality", "criteria": "1 if so"}]}

    def _rubric_judge(self, text: str, pictures: list[np.ndarray]) -> dict[str, Any]:
        return {"scores": [{"id": "r1", "rationale": "read", "applicable": True, "score": 1}]}


def _decode(url: str) -> np.ndarray:
    data = np.frombuffer(base64.b64decode(url.partition(",")[2]), np.uint8)
    return cv2.cvtColor(cv2.imdecode(data, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


@contextmanager
def serving(world: ClipWorld) -> Iterator[str]:
    """Serve the world; gives the base URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            texts = [world.reply(body, index) for index in range(body["n"])]
            choices = [
                {"index": i, "message": {"content": text}, "finish_reason": "stop"} for i, text in enumerate(texts)
            ]
            data = json.dumps({"choices": choices, "usage": {"prompt_tokens": 3, "completion_tokens": 3}}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
