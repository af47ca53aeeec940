"""Calls of code: how they end, what they show, and what of them the next call finds."""

import asyncio
import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import psutil
import pytest

from groundtrace.sandbox import Sandbox, SandboxLost, Session
from groundtrace.sandbox.shared import shared_sandbox

from .conftest import LIMITS, encoded

pytestmark = pytest.mark.sandbox

STATUSES = {
    "ok, printed": ("print('a')", "ok", "a"),
    "ok, shown": ("input_image", "ok", ""),
    "ok, ended by exit": ("print('a'); exit()", "ok", "a"),
    "silent": ("x = 1", "silent", "[the code printed nothing and showed no image]"),
    "silent, a blank": ("print(' ')", "silent", "printed nothing"),
    "silent, an image that cannot be reached": (
        "import os; os.mkdir('d'); input_image.save('d/a.png'); os.chmod('d', 0o400)",
        "silent",
        "showed no image",
    ),
    "error": ("1 / 0", "error", "ZeroDivisionError: division by zero"),
    "error of the text": ("x = = 1", "error", "SyntaxError"),
    "error by exit": ("exit(3)", "error", "SystemExit: 3"),
    "error of input()": ("input()", "error", "EOFError"),
    "error after output": ("print('first'); open('none')", "error", "first\nTraceback"),
    "timeout": ("print('a', flush=True)\nwhile True: pass", "timeout", "a\nthe call took longer than it may"),
    "memory": ("bytearray(1 << 40)", "memory", "more memory than it may use"),
    "memory in OpenCV": (
        "import cv2, numpy; cv2.resize(numpy.ones((9, 9)), (60000, 60000))",
        "memory",
        "nsufficient memory",
    ),
    "killed": ("import os; os._exit(0)", "killed", "exit code 0"),
    "killed, for a good answer with an error": (
        "from inside import frames; pack = frames.pack; frames.pack = lambda h, p: pack({**h, 'error': 'x'}, p)",
        "killed",
        "other than an answer",
    ),
    "killed by a signal": ("import ctypes; ctypes.string_at(1)", "killed", "signal 11"),
}


@pytest.mark.parametrize("case", STATUSES)
def test_how_it_ends(case: str, session: Session) -> None:
    code, status, text = STATUSES[case]
    seen = session.run(code)
    assert (seen.status, seen.is_good) == (status, status in ("ok", "silent")), seen
    assert text in seen.text
    assert session.run("print(2)").stdout == "2\n"


def test_memory_that_grows_step_by_step_is_limited() -> None:
    """The call has more time than others: a slow host needs seconds to give a process 256 MB for the first time."""
    with Sandbox(replace(LIMITS, call_timeout_s=60)) as sandbox, sandbox.open() as session:
        seen = session.run("a = [0]\nwhile True: a += a")
        assert seen.status == "memory" and "more memory than it may use" in seen.text, seen
        assert session.run("print(2)").stdout == "2\n"


@pytest.mark.parametrize("char", ["\0", "é", "\U0001f600", "\ud800"])
def test_a_code_may_have_as_many_characters_as_is_said(char: str, session: Session) -> None:
    code = f"# {char * (LIMITS.max_code_chars - 2)}"
    assert session.run(code).status == ("silent" if char in "é\U0001f600" else "error")
    assert session.run(f"{code} ").error == "the code is longer than 100000 characters"
    assert session.run("print(2)").stdout == "2\n"


def test_an_error_is_told_with_its_lines_and_none_of_ours(session: Session) -> None:
    session.run("def half(x):\n    return x // 0")
    assert session.run("y = 1\nhalf(y)").error == (
        'Traceback (most recent call last):\n  File "<call 2>", line 2, in <module>\n    half(y)\n'
        '  File "<call 1>", line 2, in half\n    return x // 0\n           ~~^^~~\n'
        "ZeroDivisionError: integer division or modulo by zero"
    )


SHOWN = {
    "the value of the last line": ("input_image.crop((0, 0, 60, 70))", [(70, 60)]),
    "a crop that is small is enlarged": ("input_image.crop((0, 0, 10, 20))", [(224, 112)]),
    "a crop that is too long is left out": ("print(1); input_image.resize((600, 2))", []),
    "show()": ("input_image.show(); print(1)", [(100, 200)]),
    "display()": ("display(input_image, 'text', input_image.resize((80, 80)))", [(100, 200), (80, 80)]),
    "the same once": ("display(input_image); display(input_image); input_image", [(100, 200)]),
    "an array": ("import numpy as np; np.asarray(input_image)[:60, :70]", [(60, 70)]),
    "an array of booleans": ("import numpy as np; np.asarray(input_image)[..., 0] > 3", [(100, 200)]),
    "numbers are no image": ("import numpy as np; print(1); np.ones((60, 60))", []),
    "OpenCV's windows": (
        "import cv2; i = cv2.imread('input_image.jpg'); cv2.imshow('w', i); cv2.waitKey(0)",
        [(100, 200)],
    ),
    "a file": ("input_image.resize((90, 60)).save('crop.png'); print(1)", [(60, 90)]),
    "files in the order of writing": (
        "import time\nfor n in (90, 70, 80): input_image.resize((n, 60)).save(f'{n}.png'); time.sleep(.01)\nprint(1)",
        [(60, 90), (60, 70), (60, 80)],
    ),
    "a file that is no image": ("open('x.png', 'w').write('x'); print(1)", []),
    "plt.show()": (
        "import matplotlib.pyplot as plt; plt.figure(figsize=(2, 1)); plt.plot([1]); plt.show()",
        [(150, 300)],
    ),
    "a figure that is left open": (
        "import matplotlib.pyplot as plt; plt.figure(figsize=(2, 1)); print(1)",
        [(150, 300)],
    ),
    "a figure under another backend": (
        "import matplotlib as m; m.use('Agg')\nimport matplotlib.pyplot as plt; plt.figure(figsize=(2, 1)); plt.show()",
        [(150, 300)],
    ),
    "with transparency": (
        "from PIL import Image; Image.new('RGBA', (60, 60), (255, 0, 0, 0))",
        [(60, 60)],
    ),
}


@pytest.fixture(scope="module")
def patient() -> Iterator[Sandbox]:
    """For calls that import matplotlib, which takes seconds on a busy machine."""
    with Sandbox(replace(LIMITS, call_timeout_s=30)) as made:
        yield made


@pytest.mark.parametrize("case", SHOWN)
def test_what_it_shows(case: str, patient: Sandbox) -> None:
    code, sizes = SHOWN[case]
    with patient.open([encoded()]) as session:
        seen = session.run(code)
    assert (seen.status, [image.shape[:2] for image in seen.images]) == ("ok", sizes), seen.text
    assert all(image.dtype == np.uint8 and image.shape[2] == 3 for image in seen.images)


def test_colours_are_right(session: Session) -> None:
    red = [255, 0, 0]
    for code in (
        "input_image",
        "import cv2; cv2.imshow('w', cv2.imread('input_image.jpg'))",
        "import numpy as np; np.asarray(input_image)",
    ):
        assert session.run(code).images[0][50, 50].tolist() == red, code
    seen = session.run("from PIL import Image; Image.new('RGBA', (60, 60), (255, 0, 0, 0))")
    assert seen.images[0][5, 5].tolist() == [255, 255, 255]


def test_a_figure_is_shown_again_only_where_it_changed(patient: Sandbox) -> None:
    with patient.open([encoded()]) as session:
        assert len(session.run("import matplotlib.pyplot as plt; plt.plot([1, 2])").images) == 1
        assert len(session.run("print(1)").images) == 0
        assert len(session.run("plt.title('t')").images) == 1
        assert len(session.run("plt.show()").images) == 1
        assert session.run("print(plt.get_fignums())").stdout == "[]\n"


def test_several_images_have_variables_and_files(sandbox: Sandbox) -> None:
    with sandbox.open([encoded("red"), encoded("blue", (60, 70))]) as session:
        seen = session.run(
            "import os; print(sorted(os.listdir('.')), input_image.size, input_image_2.getpixel((0, 0)))"
        )
    assert seen.stdout == "['input_image.jpg', 'input_image_2.jpg'] (200, 100) (0, 0, 255)\n"


def test_an_image_that_cannot_be_opened_is_an_error(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxLost):
        sandbox.open([b"no image"])
    with sandbox.open([encoded()]) as session:  # its place is free again
        assert session.run("print(1)").is_good


def test_what_a_call_leaves_is_ended_and_reported(session: Session) -> None:
    seen = session.run("import os, time\nif not os.fork():\n    while True: time.sleep(1)\nprint('a')")
    assert (seen.ended_processes, seen.ended_threads) == (1, 0)
    seen = session.run("import threading\nfor _ in range(3): threading.Thread(target=time.sleep, args=(99,)).start()")
    assert (seen.ended_processes, seen.ended_threads) == (0, 3) and "3 threads" in seen.text


def test_output_is_cut_and_the_cut_is_reported(session: Session) -> None:
    seen = session.run("print('é' * 12000); import sys; print('e' * 3, file=sys.stderr)")
    assert (len(seen.stdout), seen.stderr) == (LIMITS.max_output_chars, "eee\n")
    assert seen.dropped_chars == 2001 and "[2001 further characters are left out]" in seen.text
    seen = session.run("for n in range(14): display(input_image.rotate(n))")
    assert (len(seen.images), seen.images_left_out) == (10, 4)


def test_time_and_length_of_a_trajectory_are_limited() -> None:
    limits = replace(LIMITS, trajectory_timeout_s=1.5, max_code_chars=1000)
    with Sandbox(limits) as sandbox, sandbox.open() as session:
        assert session.run("#" * 1001).error == "the code is longer than 1000 characters"
        assert session.run("import time; time.sleep(60)").status == "timeout"
        seen = session.run("print(1)")
        assert (seen.status, seen.error) == ("timeout", "the calls of this trajectory have used up their time")


def test_the_same_code_on_the_same_image_does_the_same(sandbox: Sandbox) -> None:
    code = "import random, numpy; print(random.random(), numpy.random.rand(), hash('a'), list({'a', 'b', 'c'}))"
    outputs = set()
    for _ in range(2):
        with sandbox.open([encoded()]) as session:
            outputs.add(session.run(code).stdout)
    assert len(outputs) == 1


def test_places_are_bounded_and_given_back(sandbox: Sandbox) -> None:
    limits = replace(LIMITS, sessions=2)
    with Sandbox(limits) as small:
        first, second = small.open(), small.open()
        with pytest.raises(TimeoutError, match="2 open trajectories"):
            small.open(timeout_s=0.1)
        first.close()
        first.close()
        third = small.open(timeout_s=10)
        assert third.run("print(1)").is_good and second.run("print(2)").is_good
        with pytest.raises(SandboxLost, match="was closed"):
            first.run("print(1)")


def test_a_session_keeps_its_sandbox() -> None:
    session = Sandbox(LIMITS).open()
    gc.collect()
    assert session.run("print(1)").stdout == "1\n"
    session.close()


def test_many_at_once_from_threads_and_from_a_loop(sandbox: Sandbox) -> None:
    def one(number: int) -> str:
        with sandbox.open() as session:
            session.run(f"x = {number}")
            return session.run("print(x)").stdout

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(12))) == [f"{n}\n" for n in range(12)]

    async def together() -> list[Any]:
        with sandbox.open() as first, sandbox.open() as second:
            return await asyncio.gather(first.run_async("print(1)"), second.run_async("print(2)"))

    assert [seen.stdout for seen in asyncio.run(together())] == ["1\n", "2\n"]


def test_a_session_takes_one_call_at_a_time_and_may_be_closed_in_the_middle(sandbox: Sandbox) -> None:
    with sandbox.open() as session, ThreadPoolExecutor(4) as threads:
        session.run("import time; n = 0")
        list(threads.map(lambda _: session.run("time.sleep(0.1); n += 1"), range(4)))
        assert session.run("print(n)").stdout == "4\n"
        running = threads.submit(session.run, "time.sleep(3)")
        time.sleep(0.5)
        session.close()
        with pytest.raises(SandboxLost, match="closed"):
            running.result()


def test_trajectories_open_without_a_thread_that_waits() -> None:
    """More wait for a place than any pool of threads has."""

    async def one(sandbox: Sandbox, number: int) -> str:
        session = await sandbox.open_async()
        try:
            return (await session.run_async(f"print({number})")).stdout
        finally:
            await asyncio.to_thread(session.close)

    async def together(sandbox: Sandbox) -> list[str]:
        return await asyncio.gather(*(one(sandbox, number) for number in range(20)))

    with Sandbox(replace(LIMITS, sessions=2, warm=0)) as sandbox:
        assert asyncio.run(together(sandbox)) == [f"{number}\n" for number in range(20)]


def test_an_opening_that_is_cancelled_gives_its_place_back() -> None:
    async def cancelled(sandbox: Sandbox) -> None:
        opening = asyncio.create_task(sandbox.open_async())
        await asyncio.sleep(0.02)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    with Sandbox(replace(LIMITS, sessions=1, warm=0)) as sandbox:
        for _ in range(3):
            asyncio.run(cancelled(sandbox))
        with sandbox.open(timeout_s=20) as session:
            assert session.run("print(1)").stdout == "1\n"
            with pytest.raises(TimeoutError, match="1 open trajectories"):
                asyncio.run(sandbox.open_async(timeout_s=0.05))


def test_an_opening_whose_coroutine_is_closed_gives_its_place_back() -> None:
    with Sandbox(replace(LIMITS, sessions=1, warm=0)) as sandbox:
        loop = asyncio.new_event_loop()
        opening = sandbox.open_async()
        loop.call_soon(lambda: opening.send(None))
        loop.call_later(0.02, loop.stop)
        loop.run_forever()
        opening.close()
        loop.close()
        sandbox.open(timeout_s=20).close()


def test_an_opening_that_is_interrupted_leaves_no_process() -> None:
    with Sandbox(replace(LIMITS, sessions=1, warm=0)) as sandbox:
        before = psutil.Process().children()
        for delay_s in (0.02, 0.04):
            timer = threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with pytest.raises(KeyboardInterrupt), sandbox.open(timeout_s=20):
                time.sleep(9)
        deadline = time.monotonic() + 20
        while psutil.Process().children() != before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert psutil.Process().children() == before
        sandbox.open(timeout_s=20).close()


def test_a_process_has_one_sandbox_for_equal_settings() -> None:
    shared = shared_sandbox(replace(LIMITS, warm=0))
    assert shared_sandbox(replace(LIMITS, warm=0)) is shared
    assert shared_sandbox(replace(LIMITS, warm=0, sessions=3)) is not shared
