"""The limit of open files: raised if the endpoints need more connections, and refused in one line if it cannot be."""

import json
import subprocess
import sys

import pytest

CACHES = """
import json, resource, sys
from groundtrace.inference.open_files import allow_caches
from groundtrace.inference.settings import EndpointSettings
soft, hard, caches, requests = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
found = allow_caches(caches, {"far": EndpointSettings("openai", "m", max_concurrency=requests)})
print(json.dumps([found, resource.getrlimit(resource.RLIMIT_NOFILE)[0]]))
"""

SCRIPT = """
import json, resource, sys
from groundtrace.inference.open_files import TooFewFiles, allow_connections
from groundtrace.inference.settings import EndpointSettings
soft, hard, *requests = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
endpoints = {f"e{n}": EndpointSettings("openai", "m", max_concurrency=most) for n, most in enumerate(requests)}
endpoints["local"] = EndpointSettings("classical", "m", max_concurrency=60000)
try:
    allow_connections(endpoints)
    refused = ""
except TooFewFiles as error:
    refused = str(error)
print(json.dumps([resource.getrlimit(resource.RLIMIT_NOFILE)[0], refused]))
"""


def limited(*numbers: int) -> list[object]:
    words = [sys.executable, "-c", SCRIPT, *map(str, numbers)]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


@pytest.mark.parametrize(
    ("limits", "expected", "warning"),
    [
        pytest.param((1024, 4096), [100, 1024], "", id="the limit suffices"),
        pytest.param((512, 4096), [100, 620], "", id="the limit is raised"),
        pytest.param((512, 600), [93, 600], "only 93 of the 100 caches of other runs are searched", id="some fit"),
        pytest.param((64, 64), [8, 64], "raise the limit (`ulimit -n 620`", id="as many as ever"),
    ],
)
def test_caches_of_other_runs_that_fit_the_limit(limits: tuple[int, int], expected: list[int], warning: str) -> None:
    words = [sys.executable, "-c", CACHES, *map(str, limits), "100", "64"]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == expected
    assert warning in ran.stderr if warning else not ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        pytest.param((1024, 4096, 64), 1024, id="the limit suffices"),
        pytest.param((1024, 4096, 1000), 1256, id="the limit is raised"),
        pytest.param((1024, 4096, 1000, 2000), 3256, id="the endpoints' requests are added"),
        pytest.param((1024, 1024, 768), 1024, id="just enough"),
        pytest.param((100, 100), 100, id="no endpoint has connections"),
    ],
)
def test_limits_that_suffice_or_can_be_raised(numbers: tuple[int, ...], expected: int):
    assert limited(*numbers) == [expected, ""]


def test_a_hard_limit_is_refused_with_the_remedy():
    assert limited(1024, 1024, 100, 900) == [
        1024,
        "1000 requests in flight need 1256 open files, but this process may open only 1024: raise the limit "
        "(`ulimit -n 1256`, as root if necessary), or reduce endpoints.e1.max_concurrency, which is 900",
    ]


@pytest.mark.slow
def test_a_run_is_refused_before_anything_is_written(tmp_path):
    endpoint = 'kind = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\nfamily = "qwen3-vl"\n'
    (tmp_path / "config.toml").write_text(
        f'allow_embedded = true\n[endpoints.far]\n{endpoint}max_concurrency = 1000\n[roles]\npolicy = "far"\n'
    )
    command = [sys.executable, "-m", "groundtrace", "run", "grounded_cot", "--input", "data/sample"]
    command += ["--config", str(tmp_path / "config.toml"), "--output", str(tmp_path / "out")]
    ran = subprocess.run(
        ["bash", "-c", 'ulimit -n 1024 && exec "$@"', "bash", *command], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert "reduce endpoints.far.max_concurrency, which is 1000" in ran.stderr
    assert not (tmp_path / "out").exists()
