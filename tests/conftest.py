"""What every test may rely on: none of this machine's settings, and a data folder of its own."""

from pathlib import Path

import pytest

from bot.settings import Group, Settings


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment in which nothing is configured, without a `.env` file."""
    for name in setting_names():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "user-data"))
    monkeypatch.chdir(tmp_path)
    return monkeypatch


def setting_names(group: type[Group] = Settings) -> set[str]:
    """The environment variables that the settings read."""
    names: set[str] = set()
    for field in group.model_fields.values():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Group):
            names |= setting_names(field.annotation)
        else:
            assert isinstance(field.validation_alias, str)
            names.add(field.validation_alias)
    return names
