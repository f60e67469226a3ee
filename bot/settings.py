"""Every setting of Footnote, read once from the environment and `.env`."""

from pathlib import Path
from typing import Literal, Self

import platformdirs
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from rag.errors import SettingsError
from rag.prompts import SYSTEM_PROMPT
from rag.types import AgentConfig

OPENAI_OWN_URL = "https://api.openai.com/v1"
SAMPLE_COURSE = Path(__file__).resolve().parent.parent / "courses" / "physical-ai-robotics"


class Group(BaseSettings):
    model_config = SettingsConfigDict(
        env_file=".env",
        env_file_encoding="utf-8",
        env_ignore_empty=True,
        extra="ignore",
    )


class SlackSettings(Group):
    """Slack runs when both tokens are set."""

    bot_token: SecretStr | None = Field(default=None, validation_alias="SLACK_BOT_TOKEN")
    app_token: SecretStr | None = Field(default=None, validation_alias="SLACK_APP_TOKEN")
    signing_secret: SecretStr | None = Field(default=None, validation_alias="SLACK_SIGNING_SECRET")
    api_url: str = Field(default="https://slack.com/api/", validation_alias="SLACK_API_URL")

    @property
    def missing(self) -> list[str]:
        tokens = {"SLACK_BOT_TOKEN": self.bot_token, "SLACK_APP_TOKEN": self.app_token}
        return [name for name, token in tokens.items() if token is None]

    @property
    def enabled(self) -> bool:
        return not self.missing


class DiscordSettings(Group):
    """Discord runs when its token is set."""

    bot_token: SecretStr | None = Field(default=None, validation_alias="DISCORD_BOT_TOKEN")
    message_content: bool = Field(default=True, validation_alias="FOOTNOTE_DISCORD_MESSAGE_CONTENT")

    @property
    def enabled(self) -> bool:
        return self.bot_token is not None


class OpenAISettings(Group):
    """A language model writes the answers when a key is set."""

    api_key: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    base_url: str = Field(default=OPENAI_OWN_URL, validation_alias="OPENAI_BASE_URL")
    model: str = Field(default="gpt-4o-mini", validation_alias="OPENAI_MODEL", min_length=1)
    timeout_seconds: float = Field(
        default=60.0, validation_alias="FOOTNOTE_MODEL_TIMEOUT_SECONDS", gt=0
    )

    @model_validator(mode="after")
    def _own_keys_look_right(self) -> Self:
        own = self.base_url.rstrip("/") == OPENAI_OWN_URL
        if own and self.api_key is not None:
            key = self.api_key.get_secret_value()
            if not key.startswith("sk-") or len(key) < 40:
                raise ValueError(
                    "OPENAI_API_KEY must start with sk- and have 40 or more characters"
                )
        return self

    @property
    def enabled(self) -> bool:
        return self.api_key is not None


class QdrantSettings(Group):
    """Passages lie in the data folder unless a Qdrant server is named."""

    url: str | None = Field(default=None, validation_alias="QDRANT_URL")
    api_key: SecretStr | None = Field(default=None, validation_alias="QDRANT_API_KEY")
    collection: str = Field(default="textbook_chunks", validation_alias="QDRANT_COLLECTION_NAME")
    timeout_seconds: int = Field(
        default=30, validation_alias="FOOTNOTE_QDRANT_TIMEOUT_SECONDS", ge=1
    )


class EmbeddingSettings(Group):
    """Who turns text into vectors: never another than the one named here, whatever keys are set."""

    embedder: Literal["local", "cohere", "openai"] = Field(
        default="local", validation_alias="FOOTNOTE_EMBEDDER"
    )
    folder: Path | None = Field(default=None, validation_alias="FOOTNOTE_EMBEDDING_FOLDER")
    cohere_api_key: SecretStr | None = Field(default=None, validation_alias="COHERE_API_KEY")
    cohere_model: str = Field(
        default="embed-english-v3.0", validation_alias="COHERE_MODEL", min_length=1
    )
    cohere_base_url: str = Field(
        default="https://api.cohere.com", validation_alias="COHERE_BASE_URL"
    )
    openai_model: str = Field(
        default="text-embedding-3-small", validation_alias="FOOTNOTE_EMBEDDING_MODEL", min_length=1
    )
    dimension: int | None = Field(
        default=None, validation_alias="FOOTNOTE_EMBEDDING_DIMENSION", ge=1
    )
    usd_per_million: float | None = Field(
        default=None, validation_alias="FOOTNOTE_EMBEDDING_USD_PER_MILLION", ge=0
    )
    timeout_seconds: float = Field(
        default=30.0, validation_alias="FOOTNOTE_EMBEDDING_TIMEOUT_SECONDS", gt=0
    )

    @field_validator("folder")
    @classmethod
    def _home_is_expanded(cls, folder: Path | None) -> Path | None:
        return folder.expanduser() if folder else None


class RerankSettings(Group):
    """A second look at the best passages, where it is asked for and a key is set."""

    reranker: Literal["off", "cohere"] = Field(default="off", validation_alias="FOOTNOTE_RERANKER")
    api_key: SecretStr | None = Field(default=None, validation_alias="COHERE_API_KEY")
    base_url: str = Field(default="https://api.cohere.com", validation_alias="COHERE_BASE_URL")
    model: str = Field(
        default="rerank-v3.5", validation_alias="FOOTNOTE_RERANK_MODEL", min_length=1
    )
    timeout_seconds: float = Field(
        default=5.0, validation_alias="FOOTNOTE_RERANK_TIMEOUT_SECONDS", gt=0
    )


class RedisSettings(Group):
    """Conversations and the inbox live in an embedded Valkey unless a Redis server is named."""

    url: str | None = Field(default=None, validation_alias="REDIS_URL")
    conversation_ttl_seconds: int = Field(
        default=24 * 3600, validation_alias="FOOTNOTE_CONVERSATION_TTL_SECONDS", ge=1
    )


class AgentSettings(Group):
    """How the agent searches and answers."""

    top_k: int = Field(default=5, validation_alias="AGENT_TOP_K", ge=1, le=100)
    score_threshold: float = Field(
        default=0.0, validation_alias="AGENT_SCORE_THRESHOLD", ge=0, le=1
    )
    max_turns: int = Field(default=50, validation_alias="AGENT_MAX_TURNS", ge=1)
    temperature: float = Field(default=0.0, validation_alias="FOOTNOTE_TEMPERATURE", ge=0, le=1)
    max_tokens: int | None = Field(default=None, validation_alias="FOOTNOTE_MAX_TOKENS", ge=1)
    context_tokens: int = Field(
        default=16_000, validation_alias="FOOTNOTE_CONTEXT_TOKENS", ge=1_000
    )
    verify_with_model: Literal["off", "low", "always"] = Field(
        default="low", validation_alias="FOOTNOTE_VERIFY_WITH_MODEL"
    )
    policy: Literal["calibrated", "seed"] = Field(
        default="calibrated", validation_alias="FOOTNOTE_CONFIDENCE_POLICY"
    )


class Settings(Group):
    """Everything, by group; built once in the command line and passed down."""

    # Without it a variable that happens to be called REDIS or AGENT would be read as a group.
    model_config = SettingsConfigDict(env_prefix="FOOTNOTE_GROUP_")

    data_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("footnote", appauthor=False)),
        validation_alias="FOOTNOTE_DATA_DIR",
    )
    course: str | None = Field(default=None, validation_alias="FOOTNOTE_COURSE")
    log_level: str = Field(default="WARNING", validation_alias="FOOTNOTE_LOG_LEVEL")
    slack: SlackSettings = Field(default_factory=lambda: SlackSettings())
    discord: DiscordSettings = Field(default_factory=lambda: DiscordSettings())
    openai: OpenAISettings = Field(default_factory=lambda: OpenAISettings())
    embedding: EmbeddingSettings = Field(default_factory=lambda: EmbeddingSettings())
    qdrant: QdrantSettings = Field(default_factory=lambda: QdrantSettings())
    reranking: RerankSettings = Field(default_factory=lambda: RerankSettings())
    redis: RedisSettings = Field(default_factory=lambda: RedisSettings())
    agent: AgentSettings = Field(default_factory=lambda: AgentSettings())

    @field_validator("data_dir")
    @classmethod
    def _home_is_expanded(cls, folder: Path) -> Path:
        return folder.expanduser()

    @field_validator("log_level")
    @classmethod
    def _known_level(cls, level: str) -> str:
        if level.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
            raise ValueError("use DEBUG, INFO, WARNING or ERROR")
        return level.upper()

    @property
    def agent_config(self) -> AgentConfig:
        return AgentConfig(
            model=self.openai.model,
            system_prompt=SYSTEM_PROMPT,
            **self.agent.model_dump(exclude={"policy", "verify_with_model"}),
        )


def load_settings() -> Settings:
    """The settings, or a SettingsError that names what is wrong with which variable."""
    try:
        return Settings()
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        readable = "; ".join(p.replace("Value error, ", "").lstrip(": ") for p in problems)
        raise SettingsError(f"A setting is wrong. {readable}.") from None
