"""Settings from the environment and `.env`, and what is said when one is wrong."""

import re
from pathlib import Path

import pytest

from bot.settings import load_settings
from rag.errors import SettingsError
from tests.conftest import setting_names

EXAMPLE = Path(__file__).parents[2] / ".env.example"
KEY = "sk-" + "0" * 40


@pytest.fixture(autouse=True)
def environment(no_settings: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    return no_settings


def test_nothing_needs_to_be_set() -> None:
    settings = load_settings()
    assert settings.redis.url is None
    assert settings.qdrant.url is None
    assert not settings.slack.enabled
    assert not settings.discord.enabled
    assert not settings.openai.enabled
    assert settings.data_dir.name == "footnote"
    assert settings.agent.policy == "calibrated"


def test_a_key_alone_does_not_choose_who_embeds(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("COHERE_API_KEY", "hush")
    environment.setenv("OPENAI_API_KEY", KEY)
    assert load_settings().embedding.embedder == "local"


def test_settings_are_read_by_group(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment.setenv("FOOTNOTE_DATA_DIR", str(tmp_path))
    environment.setenv("REDIS_URL", "redis://localhost")
    environment.setenv("AGENT_TOP_K", "7")
    environment.setenv("OPENAI_MODEL", "small-model")
    settings = load_settings()
    assert settings.data_dir == tmp_path
    assert settings.redis.url == "redis://localhost"
    assert (settings.agent_config.top_k, settings.agent_config.model) == (7, "small-model")


def test_a_dot_env_file_is_read_and_the_environment_wins(environment: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("FOOTNOTE_COURSE=robotics\nAGENT_TOP_K=7\n")
    environment.setenv("AGENT_TOP_K", "9")
    settings = load_settings()
    assert (settings.course, settings.agent.top_k) == ("robotics", 9)


def test_an_empty_variable_counts_as_not_set(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("OPENAI_API_KEY", "")
    environment.setenv("REDIS_URL", "")
    settings = load_settings()
    assert settings.openai.api_key is None
    assert settings.redis.url is None


@pytest.mark.parametrize(
    "name", ["URL", "API_KEY", "BOT_TOKEN", "MODEL", "TOP_K", "COURSE", "DATA_DIR", "TEMPERATURE"]
)
def test_a_variable_of_another_program_is_not_ours(
    environment: pytest.MonkeyPatch, name: str
) -> None:
    untouched = load_settings()
    environment.setenv(name, "1")
    assert load_settings() == untouched


@pytest.mark.parametrize(
    "name", ["SLACK", "DISCORD", "OPENAI", "EMBEDDING", "QDRANT", "REDIS", "AGENT"]
)
def test_a_variable_named_like_a_group_is_not_ours(
    environment: pytest.MonkeyPatch, name: str
) -> None:
    untouched = load_settings()
    environment.setenv(name, "7")
    assert load_settings() == untouched


def test_a_home_folder_is_expanded(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment.setenv("HOME", str(tmp_path))
    environment.setenv("FOOTNOTE_DATA_DIR", "~/course data")
    assert load_settings().data_dir == tmp_path / "course data"


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("AGENT_TOP_K", "0", "AGENT_TOP_K: Input should be greater than or equal to 1"),
        ("AGENT_TOP_K", "many", "AGENT_TOP_K: Input should be a valid integer"),
        ("AGENT_SCORE_THRESHOLD", "2", "AGENT_SCORE_THRESHOLD: Input should be less than"),
        ("FOOTNOTE_TEMPERATURE", "-1", "FOOTNOTE_TEMPERATURE: Input should be greater"),
        ("FOOTNOTE_CONFIDENCE_POLICY", "bold", "FOOTNOTE_CONFIDENCE_POLICY: Input should be"),
        ("FOOTNOTE_CONVERSATION_TTL_SECONDS", "0", "FOOTNOTE_CONVERSATION_TTL_SECONDS: Input"),
        ("FOOTNOTE_LOG_LEVEL", "loud", "FOOTNOTE_LOG_LEVEL: use DEBUG, INFO, WARNING or ERROR"),
        ("FOOTNOTE_EMBEDDER", "gpt", "FOOTNOTE_EMBEDDER: Input should be 'local', 'cohere' or"),
        ("FOOTNOTE_EMBEDDING_DIMENSION", "0", "FOOTNOTE_EMBEDDING_DIMENSION: Input should be"),
        ("FOOTNOTE_EMBEDDING_USD_PER_MILLION", "-1", "FOOTNOTE_EMBEDDING_USD_PER_MILLION: Inp"),
        ("FOOTNOTE_QDRANT_TIMEOUT_SECONDS", "0", "FOOTNOTE_QDRANT_TIMEOUT_SECONDS: Input sho"),
        ("OPENAI_API_KEY", "hush", "OPENAI_API_KEY must start with sk- and have 40 or more"),
        ("OPENAI_API_KEY", "sk-hush", "OPENAI_API_KEY must start with sk- and have 40 or more"),
    ],
)
def test_a_wrong_setting_is_named_but_a_secret_is_not_repeated(
    environment: pytest.MonkeyPatch, name: str, value: str, sentence: str
) -> None:
    environment.setenv(name, value)
    with pytest.raises(SettingsError) as raised:
        load_settings()
    assert str(raised.value).startswith(f"A setting is wrong. {sentence}")
    assert str(raised.value).endswith(".")
    assert "hush" not in str(raised.value)


def test_a_compatible_server_may_have_keys_of_any_form(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("OPENAI_API_KEY", "none-needed")
    environment.setenv("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1")
    assert load_settings().openai.enabled


def test_secrets_are_not_shown_when_settings_are_printed(environment: pytest.MonkeyPatch) -> None:
    for name in ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "QDRANT_API_KEY", "COHERE_API_KEY"):
        environment.setenv(name, "hush")
    environment.setenv("OPENAI_API_KEY", KEY)
    shown = repr(load_settings())
    assert "hush" not in shown
    assert KEY not in shown


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ([], ["SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"]),
        (["SLACK_BOT_TOKEN"], ["SLACK_APP_TOKEN"]),
        (["SLACK_APP_TOKEN"], ["SLACK_BOT_TOKEN"]),
        (["SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"], []),
    ],
)
def test_slack_runs_with_both_of_its_tokens(
    environment: pytest.MonkeyPatch, given: list[str], missing: list[str]
) -> None:
    for name in given:
        environment.setenv(name, "token")
    slack = load_settings().slack
    assert slack.missing == missing
    assert slack.enabled == (not missing)


# --- .env.example ------------------------------------------------------------------------------


def example_lines() -> list[str]:
    lines = EXAMPLE.read_text().splitlines()
    return [line for line in lines if re.match(r"# ?[A-Z_]+=", line)]


def test_the_example_file_names_exactly_the_settings_there_are() -> None:
    names = [line.removeprefix("#").strip().partition("=")[0] for line in example_lines()]
    assert sorted(names) == sorted(setting_names())


def test_the_example_file_sets_nothing() -> None:
    lines = EXAMPLE.read_text().splitlines()
    assert all(not line or line.startswith("#") for line in lines)


def test_the_example_files_values_are_the_defaults() -> None:
    untouched = load_settings()
    Path(".env").write_text("\n".join(line.removeprefix("#").strip() for line in example_lines()))
    assert load_settings() == untouched
