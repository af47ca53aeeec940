"""Configs: what a file and ``--set`` give, and what is said of a mistake."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.embedded import embedded_endpoints
from inference.settings import EndpointSettings
from pipelines.grounded_cot import Settings
from schemas.config import ConfigError, load_config, to_toml
from stages.attempt_questions import AttemptSettings
from stages.filter_by_difficulty import DifficultySettings
from stages.generate_traces import TraceSettings
from stages.split_by_media_group import SplitSettings
from stages.verify_traces import VerifySettings


def load(*overrides: str) -> Settings:
    return load_config(Settings, None, overrides)


def test_without_a_file_the_defaults_hold() -> None:
    assert load() == Settings()


OVERRIDES = [
    (["attempt.k=8"], replace(Settings(), attempt=AttemptSettings(k=8))),
    (["attempt.k = 8", "attempt.k_min=2"], replace(Settings(), attempt=AttemptSettings(8, 2))),
    (["attempt.k=8", "attempt.k=5"], replace(Settings(), attempt=AttemptSettings(k=5))),
    (["attempt.temperature=1"], Settings()),
    (["open_choices=false"], replace(Settings(), open_choices=False)),
    (["difficulty.high=0.8"], replace(Settings(), difficulty=DifficultySettings(high=0.8))),
    (['difficulty.route=["too_easy"]'], replace(Settings(), difficulty=DifficultySettings(route=("too_easy",)))),
    (["verify.gate.tau=0.5"], replace(Settings(), verify=VerifySettings(gate=replace(VerifySettings().gate, tau=0.5)))),
    (["roles.judge="], replace(Settings(), roles=Settings().roles | {"judge": ""})),
    (["roles.teacher=coarse"], replace(Settings(), roles=Settings().roles | {"teacher": "coarse"})),
    (["roles.teacher='coarse'"], replace(Settings(), roles=Settings().roles | {"teacher": "coarse"})),
    (
        ["endpoints.coarse.strength=0"],
        replace(Settings(), endpoints=embedded_endpoints() | {"coarse": EndpointSettings("classical", "colour")}),
    ),
    (
        ["endpoints.own.kind=openai", "endpoints.own.model=m", "endpoints.own.base_url=http://h:1/v1"],
        replace(
            Settings(),
            endpoints=embedded_endpoints() | {"own": EndpointSettings("openai", "m", base_url="http://h:1/v1")},
        ),
    ),
]


@pytest.mark.parametrize(("overrides", "expected"), OVERRIDES)
def test_overrides(overrides: list[str], expected: Settings) -> None:
    assert load(*overrides) == expected


WRONG = [
    ("dificulty.high=0.8", "unknown key dificulty; did you mean difficulty?"),
    ("difficulty.hihg=0.8", "unknown key difficulty.hihg; did you mean difficulty.high?"),
    ("zzz=1", "unknown key zzz; known here: allow_self_judging, attempt, clean"),
    ("endpoints.coarse.modle=x", "unknown key endpoints.coarse.modle; did you mean endpoints.coarse.model?"),
    ("attempt.k", "--set 'attempt.k': expected key=value, such as --set difficulty.high=0.8"),
    ("=3", "--set '=3': expected key=value"),
    ("attempt.k=four", "attempt.k: expected int, got 'four'"),
    ("attempt.k=4.0", "attempt.k: expected int, got 4.0"),
    ("attempt.k=true", "attempt.k: expected int, got True"),
    ("attempt.temperature=true", "attempt.temperature: expected float, got True"),
    ("attempt.temperature=warm", "attempt.temperature: expected float, got 'warm'"),
    ("open_choices=1", "open_choices: expected bool, got 1"),
    ("open_choices=yes", "open_choices: expected bool, got 'yes'"),
    ("difficulty.route=too_easy", "difficulty.route: expected a list, got 'too_easy'"),
    ("difficulty.route=[1]", r"difficulty.route[0]: expected str, got 1"),
    ("attempt=3", "attempt: expected a section, got 3"),
    ("roles=teacher", "roles: expected a section, got 'teacher'"),
    ("attempt.k.x=3", "attempt.k: expected int, got {'x': 3}"),
    ("endpoints.own.kind=openai", "endpoints.own.model is not set"),
    ("attempt.k_min=9", "attempt.k_min must be 1 to k = 4, got 9"),
    ("difficulty.high=nan", "difficulty needs 0 <= low <= high <= 1, got 0.0 and nan"),
    ("trace.n=0", "trace: n must be at least 1, got 0"),
    ("trace.temperature=-1", "trace: temperature must be in [0, 2], got -1.0"),
    ("trace.temperature=nan", "trace: temperature must be in [0, 2], got nan"),
    ("trace.max_tokens=0", "trace: max_tokens must be at least 1, got 0"),
    ("attempt.temperature=3", "attempt: temperature must be in [0, 2], got 3.0"),
    ("attempt.max_tokens=-5", "attempt: max_tokens must be at least 1, got -5"),
    ("propose.max_tokens=0", "propose.max_tokens must be at least 1, got 0"),
    ("verify.gate.tau=0", "verify.gate.tau must be in (0, 1], got 0.0"),
    ("endpoints.coarse.frame=percent", "endpoints.coarse: 'percent' is not a valid CoordinateFrame"),
    ("roles.chef=colour", "config: roles.chef: no such role; roles are policy, teacher"),
    ("roles.judge=clour", "config: roles.judge = 'clour': endpoints are coarse, colour, edges"),
    ("roles.teacher=", "config: roles.teacher must name an endpoint"),
    ("allow_self_judging=false", "config: roles.judge is the teacher's endpoint"),
]


@pytest.mark.parametrize(("override", "said"), WRONG)
def test_a_mistake_is_named(override: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(override)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_a_key_below_a_value() -> None:
    with pytest.raises(ConfigError, match="k is not a section"):
        load("attempt.k=3", "attempt.k.x=1")


def test_a_file_with_overrides_on_top(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[attempt]\nk = 6\nk_min = 2\n[split]\nsft_ratio = 0.5\n", "utf-8")
    found = load_config(Settings, str(path), ["attempt.k=7"])
    assert found == replace(Settings(), attempt=AttemptSettings(7, 2), split=SplitSettings(0.5))


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[attempt]\nk = 6\n", "utf-8-sig")
    assert load_config(Settings, str(path)) == replace(Settings(), attempt=AttemptSettings(6))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read the config"),
        (b"[attempt\nk = 6", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
        (b"[attempt]\nkk = 6", "unknown key attempt.kk; did you mean attempt.k"),
    ],
)
def test_files_that_cannot_be_used(content: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        load_config(Settings, str(path))


@settings(max_examples=40)
@given(
    attempt=st.builds(AttemptSettings, k=st.integers(4, 99), k_min=st.integers(1, 4), temperature=st.floats(0, 2)),
    trace=st.builds(TraceSettings, n=st.integers(1, 99), temperature=st.floats(0, 2)),
    difficulty=st.builds(DifficultySettings, low=st.floats(0, 0.5), high=st.floats(0.5, 1), include_low=st.booleans()),
    own=st.builds(EndpointSettings, kind=st.just("openai"), model=st.text(min_size=1), revision=st.text()),
)
def test_a_resolved_config_reads_back(
    attempt: AttemptSettings,
    trace: TraceSettings,
    difficulty: DifficultySettings,
    own: EndpointSettings,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    given = replace(
        Settings(), attempt=attempt, trace=trace, difficulty=difficulty, endpoints=embedded_endpoints() | {"own": own}
    )
    path = tmp_path_factory.mktemp("config") / "c.toml"
    path.write_text(to_toml(given), "utf-8")
    assert load_config(Settings, str(path)) == given
