"""The key of the fingerprints: made once, for its owner's eyes, in a file and never in the database."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.refusals import WrongUserKey
from app.settings import Settings
from app.store.user_key import UserKey

_GIVEN = "a user key from the environment, 32 characters or more"


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_key_is_made_once_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "user.key"
    os.umask(previous := os.umask(0))  # whatever the mask is
    made = UserKey(None, path).value
    assert len(made) == 32
    assert _mode(path) == 0o600
    assert _mode(path.parent) & 0o077 == 0 or previous == 0
    assert UserKey(None, path).value == made
    assert [found.name for found in path.parent.iterdir()] == ["user.key"]


def test_the_file_is_for_its_owner_alone_under_the_most_generous_mask(tmp_path: Path) -> None:
    made = _in_process("import os; os.umask(0)", tmp_path / "new" / "user.key")
    assert len(made) == 64
    assert _mode(tmp_path / "new" / "user.key") == 0o600
    assert _mode(tmp_path / "new") == 0o700


def _in_process(before: str, path: Path) -> str:
    code = (
        f"{before}\nfrom pathlib import Path\nfrom app.store.user_key import UserKey\n"
        f"print(UserKey(None, Path({str(path)!r})).value.hex())"
    )
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_the_file_does_not_hold_the_key_of_another_one(tmp_path: Path) -> None:
    assert UserKey(None, tmp_path / "a").value != UserKey(None, tmp_path / "b").value
    assert len((tmp_path / "a").read_text().strip()) == 64  # 256 random bits


def test_nothing_is_made_before_it_is_needed(tmp_path: Path) -> None:
    UserKey(None, tmp_path / "new" / "user.key")
    assert list(tmp_path.iterdir()) == []


def test_processes_and_threads_that_start_together_have_one_key(tmp_path: Path) -> None:
    path = tmp_path / "user.key"
    wait = f"import time, pathlib\nwhile not pathlib.Path({str(tmp_path / 'go')!r}).exists(): time.sleep(0.001)"
    with ThreadPoolExecutor(12) as threads:
        processes = [threads.submit(_in_process, wait, path) for _ in range(4)]
        (tmp_path / "go").touch()
        here = [threads.submit(lambda: UserKey(None, path).value.hex()) for _ in range(8)]
        found = {one.result() for one in processes + here}
    assert len(found) == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["go", "user.key"]


def test_a_given_key_is_used_and_no_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "user.key"
    given = UserKey(_GIVEN, path).value
    assert not path.exists()
    assert given != UserKey(None, path).value
    assert given == UserKey(_GIVEN, path).value  # although there is a file now
    assert given != UserKey(_GIVEN + "!", path).value


def test_the_same_key_may_come_by_file_or_by_the_environment(tmp_path: Path) -> None:
    """So that a replica elsewhere can be given what the first one made."""
    path = tmp_path / "user.key"
    made = UserKey(None, path).value
    assert UserKey(path.read_text().strip(), tmp_path / "elsewhere").value == made


@pytest.mark.parametrize(
    ("url", "given", "expected"),
    [
        ("sqlite:////srv/discreet/events.db", "", "/srv/discreet/user.key"),
        ("sqlite:///data/discreet.db?timeout=5", "", "data/user.key"),
        ("postgresql://host/discreet", "", "data/user.key"),
        ("postgresql://host/discreet", "/etc/discreet/users", "/etc/discreet/users"),
        ("sqlite:////srv/discreet/events.db", "/etc/discreet/users", "/etc/discreet/users"),
    ],
)
def test_the_file_lies_beside_the_database_or_where_the_setting_says(url: str, given: str, expected: str) -> None:
    environment = {"DISCREET_DATABASE_URL": url, "DISCREET_USER_KEY_FILE": given}
    assert Settings.from_environment(environment).user_key_path == Path(expected)


@pytest.mark.parametrize("damage", [b"", b"\n", b"0" * 63, b"\xff" * 64, b"\0\x80" * 100])
def test_a_file_that_was_emptied_cut_off_or_overwritten_is_no_key(tmp_path: Path, damage: bytes) -> None:
    """It would be one that everybody can guess."""
    path = tmp_path / "user.key"
    path.write_bytes(damage)
    with pytest.raises(WrongUserKey, match=r"user\.key, is damaged"):
        UserKey(None, path).value  # noqa: B018


def test_where_people_were_counted_a_missing_key_is_not_made_anew(tmp_path: Path) -> None:
    key = UserKey(None, tmp_path / "user.key")
    with pytest.raises(WrongUserKey, match=r"user\.key, is missing. Put it back"):
        key.kept  # noqa: B018
    assert list(tmp_path.iterdir()) == []
    made = key.value
    assert (key.kept, UserKey(None, tmp_path / "user.key").kept) == (made, made)


def test_neither_settings_nor_keys_show_it_when_printed(tmp_path: Path) -> None:
    settings = Settings(user_key=_GIVEN)
    assert _GIVEN not in repr(settings)
    assert _GIVEN not in repr(UserKey(_GIVEN, tmp_path / "user.key"))
