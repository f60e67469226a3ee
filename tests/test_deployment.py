"""The container files: no container is built in a test, so their promises are checked here."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import setting_names

ROOT = Path(__file__).parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def stages() -> list[str]:
    return re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]


def test_there_is_the_bot_with_its_two_servers() -> None:
    assert set(COMPOSE["services"]) == {"bot", "redis", "qdrant"}


def test_the_bot_waits_until_its_servers_are_healthy() -> None:
    awaited = COMPOSE["services"]["bot"]["depends_on"]
    assert awaited == {name: {"condition": "service_healthy"} for name in ("redis", "qdrant")}
    for name in awaited:
        assert COMPOSE["services"][name]["healthcheck"]["test"][0] == "CMD"


def test_the_bot_is_told_where_its_servers_are_in_words_the_settings_know() -> None:
    environment = COMPOSE["services"]["bot"]["environment"]
    assert environment.keys() <= setting_names()
    assert environment["REDIS_URL"].startswith("redis://redis:")
    assert environment["QDRANT_URL"].startswith("http://qdrant:")


def test_every_named_volume_is_declared_and_used() -> None:
    used = {
        volume.split(":")[0]
        for service in COMPOSE["services"].values()
        for volume in service["volumes"]
        if not volume.startswith(".")
    }
    assert used == COMPOSE["volumes"].keys()


def test_redis_keeps_an_append_only_file() -> None:
    command = COMPOSE["services"]["redis"]["command"]
    assert command[command.index("--appendonly") + 1] == "yes"


def test_the_images_are_pinned_and_nobody_is_root() -> None:
    services = COMPOSE["services"]
    assert services["redis"]["user"] == "redis"
    assert services["qdrant"]["image"].endswith("-unprivileged")
    assert not any(one.get("image", "x:1").endswith("latest") for one in services.values())
    # The user is set before anything the container runs.
    last = stages()[-1]
    assert last.index("USER footnote") < last.index("ENTRYPOINT")


def test_no_port_is_open_to_the_outside() -> None:
    assert not any("ports" in service for service in COMPOSE["services"].values())


def test_the_container_checks_its_own_health() -> None:
    assert "HEALTHCHECK" in stages()[-1]


@pytest.mark.parametrize("source", re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, re.MULTILINE))
def test_what_is_copied_is_there(source: str) -> None:
    for name in source.split():
        assert (ROOT / name).exists()


def test_secrets_and_tests_stay_out_of_the_image() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".env", ".git", ".venv", "tests"} <= set(ignored)
