"""A call that fails leaves nothing: sequences of calls against a model of what the state should be."""

import json
import os
import time
from dataclasses import replace
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundtrace.sandbox import Sandbox

from .conftest import LIMITS

pytestmark = pytest.mark.sandbox

STATE = """
import json as _json, os as _os, random as _random, sys as _sys
import numpy as _np, matplotlib.pyplot as _pyplot
def _files():
    found = {}
    for base, folders, names in _os.walk('.'):
        for n in folders + names:
            p = _os.path.join(base, n)
            found[p] = _os.readlink(p) if _os.path.islink(p) else 'folder' if _os.path.isdir(p) else open(p).read()
    return {k: v for k, v in sorted(found.items()) if '.matplotlib' not in k}
def _state():
    print(_json.dumps({
        'objects': {k: v for k, v in sorted(globals().items()) if k[0] == 'v'},
        'files': _files(), 'cwd': _os.getcwd(),
        'modules': [m for m in ('colorsys', 'wave', 'mailbox') if m in _sys.modules],
        'random': str(_random.getstate()[1][-9:]),
        'numpy': int(_np.random.get_state()[1].sum()) + _np.random.get_state()[2],
        'figures': {n: len(_pyplot.figure(n).axes) for n in _pyplot.get_fignums()},
        'environment': _os.environ.get('V'),
    }))
"""
CHANGES = {
    "object": "v{n} = {n}",
    "objects in place": "vs = globals().get('vs', []); vs.append({n})",
    "delete": "globals().pop('v{n}', None)",
    "file": "open('f{n}.txt', 'w').write('{n}')",
    "append": "open('f.txt', 'a').write('{n}')",
    "delete a file": "import os; os.path.exists('f{n}.txt') and os.unlink('f{n}.txt')",
    "folder": "import os; os.makedirs('d{n}/e', exist_ok=True); open('d{n}/e/f', 'w').write('{n}')",
    "rename": "import os; os.path.exists('f{n}.txt') and os.rename('f{n}.txt', 'g{n}.txt')",
    "link": "import os; os.path.lexists('l{n}') or os.symlink('f{n}.txt', 'l{n}')",
    "rights": "import os; os.path.exists('f{n}.txt') and os.chmod('f{n}.txt', 0o400)",
    "go": "import os; os.makedirs('w', exist_ok=True); os.chdir('w' if {n} % 2 else '/tmp')",
    "import": "import {module}",
    "random": "import random; [random.random() for _ in range({n})]",
    "numpy's random": "import numpy; numpy.random.rand({n})",
    "figure": "import matplotlib.pyplot as plt; plt.figure({n}, figsize=(1, 1)).add_subplot()",
    "close": "import matplotlib.pyplot as plt; plt.close({n})",
    "environment": "import os; os.environ['V'] = '{n}'",
}
FAILURES = {
    "": "",
    "error": "raise ValueError",
    "killed": "import os; os._exit(1)",
    "killed in C": "import ctypes; ctypes.string_at(1)",
    "timeout": "while True: pass",
    "timeout in C": "sum(range(1 << 60))",
    "memory": "x = bytearray(1 << 40)",
}
CALL = st.tuples(
    st.lists(st.tuples(st.sampled_from(sorted(CHANGES)), st.integers(1, 4)), min_size=1, max_size=4),
    st.sampled_from([*([""] * 8), *(["error", "killed", "killed in C", "memory"] * 2), "timeout", "timeout in C"]),
)
SEQUENCES = st.lists(CALL, min_size=1, max_size=5)
SEQUENCE_COUNT = int(os.environ.get("SANDBOX_SEQUENCES", "15"))
"""Each takes some seconds: `SANDBOX_SEQUENCES=1000 pytest tests/sandbox/test_transactions.py -m sandbox` for many."""


def code_of(changes: list[tuple[str, int]]) -> str:
    modules = ("colorsys", "wave", "mailbox", "colorsys", "wave")
    return "\n".join(CHANGES[name].format(n=n, module=modules[n]) for name, n in changes)


@pytest.fixture(scope="module")
def quick() -> Any:
    with Sandbox(replace(LIMITS, call_timeout_s=10.0, trajectory_timeout_s=600)) as sandbox:
        yield sandbox


@given(SEQUENCES)
@settings(max_examples=SEQUENCE_COUNT, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_after_any_sequence_the_state_is_that_of_the_good_calls(quick: Sandbox, calls: list[Any]) -> None:
    """The model: the same calls without those that fail, in a trajectory where nothing fails."""
    with quick.open() as tried, quick.open() as model:
        for session in (tried, model):
            session.run(STATE)
        for changes, failure in calls:
            code = code_of(changes)
            ended = tried.run(f"{code}\n{FAILURES[failure]}")
            assert ended.is_good == (not failure), ended
            if not failure:
                assert model.run(code).is_good
        found, expected = (session.run("_state()") for session in (tried, model))
        assert found.is_good and expected.is_good, (found, expected)
        assert json.loads(found.stdout) == json.loads(expected.stdout)


def test_native_code_that_fails_half_way_leaves_nothing(quick: Sandbox) -> None:
    with quick.open() as session:
        session.run("import numpy as np; a = np.zeros(1000)")
        assert (
            session.run("a += 1\nimport ctypes; ctypes.memset(a.ctypes.data, 255, 8000); ctypes.string_at(1)").status
            == "killed"
        )
        assert session.run("a.sort(); a[:] = 5\nwhile True: np.sin(a)").status == "timeout"
        assert session.run("print(a.sum(), a.size)").stdout == "0.0 1000\n"


def test_files_that_the_state_holds_open_are_as_before_a_call_that_fails(quick: Sandbox) -> None:
    with quick.open() as session:
        session.run("import mmap, os; f = open('f', 'w+'); f.write('abcd'); f.flush(); m = mmap.mmap(f.fileno(), 4)")
        session.run("os.link('f', 'g')")
        for code in ("f.write('BAD'); f.flush()", "m[:] = b'BAD!'", "f.truncate(0); os.rename('f', 'h')"):
            assert session.run(f"{code}\n1 / 0").status == "error"
        seen = session.run("f.write('e'); f.flush(); print(open('g').read(), m[:], os.stat('f').st_nlink)")
        assert seen.stdout == "abcde b'abcd' 2\n"


def test_a_mapping_has_nothing_behind_the_end_of_its_file_after_a_call_that_fails(quick: Sandbox) -> None:
    with quick.open() as session:
        session.run(
            "import mmap; f = open('f', 'w+b'); f.truncate(4096); m = mmap.mmap(f.fileno(), 4096); f.truncate(1)"
        )
        assert session.run("m[0] = 1; m[100] = 7").status == "silent"
        assert session.run("m[100] = 8\n1 / 0").status == "error"
        assert session.run("print(m[0], m[100])").stdout == "1 0\n"


def test_flags_of_open_files_are_as_before_a_call_that_fails(quick: Sandbox) -> None:
    with quick.open() as session:
        session.run("import fcntl, os; f = open('f', 'w+b', buffering=0); f.write(b'abc')")
        assert session.run("fcntl.fcntl(f, fcntl.F_SETFL, os.O_APPEND); 1 / 0").status == "error"
        assert session.run("f.seek(0); f.write(b'X'); print(open('f').read())").stdout == "Xbc\n"


def test_a_holder_that_no_longer_forks_is_stopped_between_calls(quick: Sandbox) -> None:
    code = """
import os, time
real, count = os.fork, [0]
def fork():
    count[0] += 1
    while count[0] > 2:
        time.sleep(0.01)
    return real()
os.fork = fork
"""
    with quick.open() as session:
        assert session.run(code).status == "silent"
        assert session.run("1").status == "timeout"
        inside = psutil.Process(session._process.popen.pid).children(recursive=True)
        for _ in range(100):  # a process stops a moment after the signal
            if inside[-1].status() == psutil.STATUS_STOPPED:
                break
            time.sleep(0.05)
        assert inside[-1].status() == psutil.STATUS_STOPPED
