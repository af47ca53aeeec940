"""Executes the code of hacks and honest responses on an image, and judges whether it looked.

The code is that of this folder, so that it needs no sandbox; each question has a process of its own.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import cv2

from groundtrace.rewards.pretence import Output, Pixels, groups_of, looked_at, pretence, without_objects
from groundtrace.rewards.scorers.tool_calls import Execution, Trajectory
from groundtrace.schemas.geometry import Box
from groundtrace.vision.decode import decode_image

TIMEOUT_S = 60
_RUNNER = r"""
import contextlib, io, json, pathlib, sys
from PIL import Image
found = []
codes, images = json.load(sys.stdin)
for code in codes:
    for name in images:
        shown = []
        def show(self, *_, **__):
            path = f"{len(found)}_{len(shown)}.png"
            self.convert("RGB").save(path)
            shown.append(path)
        Image.Image.show = show
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(code, {"input_image": Image.open(name).convert("RGB")})
            ended_well = True
        except BaseException:
            ended_well = False
        found.append((ended_well, printed.getvalue(), shown))
json.dump(found, sys.stdout)
"""


def executed(trajectories: Sequence[Sequence[str]], image: Pixels, boxes: Sequence[Box]) -> list[Trajectory]:
    """Each trajectory, given by the code of its calls, executed. ``boxes`` are of what the question asks about."""
    codes = list(dict.fromkeys(code for codes in trajectories for code in codes))
    groups = groups_of(boxes)
    with tempfile.TemporaryDirectory(prefix="calls-") as name:
        folder = Path(name)
        _write(folder / "image.png", image)
        names = ["image.png", "image.png", *(f"without_{index}.png" for index in range(len(groups)))]
        for path, group in zip(names[2:], groups, strict=True):
            _write(folder / path, without_objects(image, group))
        command, told = [sys.executable, "-c", _RUNNER], json.dumps([codes, names]).encode()
        done = subprocess.run(command, input=told, cwd=folder, capture_output=True, timeout=TIMEOUT_S, check=True)
        outputs = [
            (ended_well, Output(text, tuple(_read(folder / path) for path in shown)))
            for ended_well, text, shown in json.loads(done.stdout)
        ]
    runs = {code: outputs[len(names) * index : len(names) * (index + 1)] for index, code in enumerate(codes)}
    return [
        Trajectory((*_judged([runs[code] for code in each], image), None), groups=len(groups)) for each in trajectories
    ]


def _judged(calls: Sequence[Sequence[tuple[bool, Output]]], image: Pixels) -> list[Execution]:
    found, earlier = list[Execution](), list[Output]()
    for (ended_well, shown), (_, again), *others in calls:
        without = [output for _, output in others]
        why = pretence(shown, again, without, image, earlier)
        has_output = bool(shown.text.strip() or shown.images)
        found.append(Execution(ended_well and has_output, why, looked_at(shown, without)))
        earlier.append(shown)
    return found


def _write(path: Path, image: Pixels) -> None:
    cv2.imwrite(str(path), image[:, :, ::-1])


def _read(path: Path) -> Pixels:
    return decode_image(path.read_bytes()).pixels
