"""Settings come from the environment, and a bad one says what to change."""

import pytest

from app.settings import BadSetting, Settings


def test_the_defaults_are_an_embedded_database_on_this_machine_only() -> None:
    settings = Settings.from_environment({})
    assert settings.database_url == "sqlite:///data/discreet.db"
    assert (settings.host, settings.port, settings.workers) == ("127.0.0.1", 8000, 1)
    assert (settings.body_seconds, settings.max_releases, settings.log_level) == (30, 4, "info")


def test_zero_means_no_limit_on_how_often() -> None:
    settings = Settings.from_environment({"DISCREET_REQUESTS_PER_MINUTE": "0", "DISCREET_FAILURES_PER_MINUTE": "0"})
    assert (settings.requests_per_minute, settings.failures_per_minute) == (0, 0)


def test_the_environment_overrides_them() -> None:
    settings = Settings.from_environment(
        {
            "DISCREET_DATABASE_URL": "postgresql://u@h/d",
            "DISCREET_ADMIN_KEY": "a long enough key",
            "DISCREET_PORT": "9000",
            "DISCREET_MAX_K": "100",
            "DISCREET_HOST": "",
        }
    )
    assert settings.database_url == "postgresql://u@h/d"
    assert settings.port == 9000
    assert settings.max_k == 100
    assert settings.host == "127.0.0.1"
    assert "long enough" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "http"),
        ("PORT", "70000"),
        ("WORKERS", "0"),
        ("MAX_K", "65537"),
        ("MAX_BODY_BYTES", "-1"),
        ("MAX_BATCH_ITEMS", "0"),
        ("BODY_SECONDS", "0"),
        ("MAX_RELEASES", "0"),
        ("REQUESTS_PER_MINUTE", "-1"),
        ("FAILURES_PER_MINUTE", "many"),
        ("LOG_LEVEL", "loud"),
        ("LOG_FORMAT", "xml"),
        ("ADMIN_KEY", "short"),
        ("DATABASE_URL", "sqlite://"),
        ("DATABASE_URL", "sqlite:///:memory:"),
        ("DATABASE_URL", "mysql://h/d"),
        ("DATABASE_URL", "nonsense"),
        ("DATABASE_URL", "postgresql://u:p@h:port/d"),
        ("DATABASE_URL", "postgresql://[::1/d"),
        ("DATABASE_URL", "postgresql:///?host=a&host=b&port=1"),
        ("DATABASE_URL", "postgresql://h/d%00"),
        ("DATABASE_URL", "sqlite:///d.db?timeout=long"),
    ],
)
def test_a_bad_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(BadSetting, match=f"DISCREET_{name}"):
        Settings.from_environment({f"DISCREET_{name}": value})
