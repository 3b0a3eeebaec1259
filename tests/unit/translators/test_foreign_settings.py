"""Settings of Koyomi, Keiji and PerfectSched, judged by what our settings read from the TOML that is made of them."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from time import process_time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tokimori.config.settings import load_settings, settings_table
from tokimori.config.value import Machine, read_value
from tokimori.errors import InvalidInput
from tokimori.translators import keiji, koyomi, perfectsched
from tokimori.translators.became import Became
from tokimori.translators.foreign_settings import (
    SYSTEMS,
    became_text,
    recognised,
    settings_of,
    translated,
    write_settings,
)

ROOT = Path(__file__).parents[3]
BASE, HOME = Path("/srv/app"), Path("/home/ada")
TABLE = {setting.name: setting for setting in settings_table()}
KOYOMI = """
time_zone = "Asia/Tokyo" # Local time zone is used when not specified
debug_mode = true
[log]
debug   = true
console = true
file    = true
file_path = "/path/to/log"
[worker]
interval_minutes = 1
minimum_interval_seconds = 30
[schedule]
update_interval_seconds = 120
[job]
lock_ttl_seconds = 25
[datasource.module]
job       = "Teng"
semaphore = "Teng"
[datasource.connector]
dsn      = "dbi:mysql:database=koyomi;host=127.0.0.1;port=3306"
user     = "root"
password = ""
[datasource.connector.job]
dsn  = "dbi:mysql:jobs;host=db1"
user = "foo"
password = "xxx"
[datasource.connector.semaphore]
dsn = "dbi:Pg:dbname=locks;host=db2"
[debug]
now = "2015-05-24T09:05"
[debug.worker]
sleep_seconds = 5
"""
KEIJI = "# settings\nDB_URL=postgresql://u:p@h:5432/db\nTIME_ZONE=Africa/Nairobi\nROTATE_LOGS=1\nLOG_MAX_SIZE=2048\n"
PERFECTSCHED = """
development: &common
  type: rdb_compat
  url: mysql2://root:@localhost/dev
  table: schedules
  timezone: Asia/Tokyo
  alive_time: 300
  retry_wait: 300
  poll_interval: 1.5
  max_acquire: 1
production:
  <<: *common
  url: mysql2://u:secret@db1/prod
  sslca: /etc/ca.pem
  log: log/ps.log
"""


def became(text: str, system: str | None = None) -> tuple[Became, ...]:
    """What became of each key."""
    return translated(text, system or recognised(text), base=BASE, table=TABLE, home=HOME)


def said(text: str, env: str | None = None) -> Mapping[str, object]:
    """Our settings."""
    return settings_of(became(text))[env]


def why(text: str) -> dict[str, str]:
    """What is told of each key."""
    return {each.key: each.why for each in became(text)}


def refused(text: str, system: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        became(text, system)
    return caught.value


def test_the_page_of_koyomi() -> None:
    """Every key became a setting, or it is told why none says the same."""
    assert said(KOYOMI) == {
        "time_zone": "Asia/Tokyo",
        "log.level": "debug",
        "log.stderr": True,
        "log.file": "/path/to/log",
        "worker.interval_minutes": 1,
        "worker.minimum_interval_seconds": 30,
        "schedule.update_interval_seconds": 120,
        "store": "mariadb://root@127.0.0.1:3306/koyomi",
        "datasource.job.url": "mariadb://foo:xxx@db1/jobs",
        "datasource.semaphore.url": "postgresql://db2/locks",
    }
    found = became(KOYOMI)
    assert {each.key for each in found} == set(koyomi.KEYS) - {
        f"datasource.connector.semaphore.{name}" for name in ("user", "password")
    }
    assert [each.key for each in found if not each.settings and not each.why] == []
    told = why(KOYOMI)
    assert told["debug_mode"] == told["debug.now"] == told["debug.worker.sleep_seconds"]
    assert "Rehearsal" in told["debug_mode"]
    assert "one run" in told["job.lock_ttl_seconds"]


@pytest.mark.parametrize(
    ("text", "field", "allowed"),
    [
        ("[job]\nlock_ttl_seconds = 30", "job.lock_ttl_seconds", "below 30"),
        ("[worker]\nminimum_interval_seconds = 20", "job.lock_ttl_seconds", "below 20"),
        ("[worker]\nminimum_interval_seconds = 60", "worker.minimum_interval_seconds", "below 60"),
        ("[worker]\nminimum_interval_seconds = nan", "worker.minimum_interval_seconds", "a number"),
        ("[worker]\ninterval_minutes = 'x'", "worker.interval_minutes", "a number"),
        ("[worker]\ninterval_minutes = 1500", "worker.interval_minutes", "a whole number, 0 to 1440"),
        ("time_zone = 'Asia/Tokio'", "time_zone", None),
        ("[log]\ndebug = 3", "log.debug", "true or false"),
        ("[log]\nfile_path = 3", "log.file_path", None),
        ("[datasource.connector]\ndsn = 'dbi:Oracle:x'", "datasource.connector.dsn", None),
        ("[datasource.connector]\ndsn = 3", "datasource.connector.dsn", "a text"),
        ("[log]\nfile_path = /path/to/log", "file", None),
        (f"x = {'9' * 5000}", "file", None),
        (f"x = 0x{'f' * 5000}", "x", None),
        ("x = " + "[" * 5000, "file", None),
        ("", "file", "at least one setting"),
    ],
)
def test_koyomis_faults_name_the_key(text: str, field: str, allowed: str | None) -> None:
    """lock_ttl < minimum_interval < interval, which Koyomi only asks for, is checked too."""
    fault = refused(text, "koyomi")
    assert fault.field == field
    assert fault.allowed if allowed is None else fault.allowed == allowed


def test_what_koyomi_leaves_open() -> None:
    """A log without a path, none at all, locks that are no locks, misspelt keys, accounts without a database."""
    assert said("[log]\nfile = true")["log.file"] == "/srv/app/log/koyomi.log"
    assert said("[log]\nfile = false\nfile_path = 'x'\nconsole = false") == {"log.stderr": True}
    assert "each worker" in why("[datasource.module]\nsemaphore = 'None'")["datasource.module.semaphore"]
    assert "no equal" in why("[datasource.module]\njob = 'Mine'")["datasource.module.job"]
    assert "did you mean job.lock_ttl_seconds?" in why("[job]\nlock_tll_seconds = 1")["job.lock_tll_seconds"]
    assert "belongs" in why("[datasource.connector]\nuser = 'u'")["datasource.connector.user"]
    assert said("debug_mode = 'true'\n[worker]\ninterval_minutes = '5'") == {"worker.interval_minutes": 5}


def test_keijis_settings() -> None:
    """Lines of a shell; the default store is ours by default too, and a size below our least is raised."""
    assert said(KEIJI) == {
        "store": "postgresql://u:p@h:5432/db",
        "time_zone": "Africa/Nairobi",
        "log.rotate": True,
        "log.max_size": 2048,
    }
    assert {each.key for each in became(KEIJI)} == set(keiji.KEYS)
    assert said("DB_URL=default\nLOG_MAX_SIZE=10\nROTATE_LOGS=0") == {"log.max_size": 1024, "log.rotate": False}
    told = why("DB_URL=default\nLOG_MAX_SIZE=10\nPORT=1")
    assert ("default" in told["DB_URL"], "least" in told["LOG_MAX_SIZE"], "no such key" in told["PORT"]) == (True,) * 3
    for text in ("TIME_ZONE=Nairobi", "ROTATE_LOGS=yes", "LOG_MAX_SIZE=-1", "LOG_MAX_SIZE=²", "DB_URL=x", "TIME_ZONE="):
        assert refused(text, "keiji").field == text.partition("=")[0]
    assert refused("what is this", "keiji").field == "env"


def test_perfectscheds_sections_are_ours() -> None:
    """Each environment is a section that TOKIMORI_ENV names; what a section takes from another one is in both."""
    common = {"time_zone": "Asia/Tokyo", "schedule.update_interval_seconds": 1.5}
    assert said(PERFECTSCHED, "development") == {**common, "store": "mariadb://root@localhost/dev"}
    assert said(PERFECTSCHED, "production") == {
        **common,
        "store": "mariadb://u:secret@db1/prod?ssl_ca=%2Fetc%2Fca.pem",
        "log.file": "/srv/app/log/ps.log",
    }
    assert {each.key for each in became(PERFECTSCHED)} == set(perfectsched.KEYS)
    assert said("type: rdb_compat\nurl: sqlite://a.db\n") == {"store": "sqlite:///srv/app/a.db"}
    for text, field in (
        ("a:\n  url: <%= ENV['X'] %>", "url"),
        ("a:\n  url: 3", "url"),
        ("a:\n  url: mysql2://h/d\n  sslca: 3", "sslca"),
        ("a:\n  url: jdbc:x", "url"),
        ("a:\n  timezone: Nowhere", "timezone"),
        ("a:\n  poll_interval: 0", "poll_interval"),
        ("a:\n  url: x\n  url: y", "url"),
        ("a: [", "file"),
    ):
        assert refused(text, "perfectsched").field == field
    assert "belongs" in became("a:\n  sslca: /x", "perfectsched")[0].why


def test_whose_settings_they_are_is_read_from_the_text() -> None:
    """One DSN alone is a URL; what nobody wrote is refused with what can be said."""
    texts = {"koyomi": KOYOMI, "keiji": KEIJI, "perfectsched": PERFECTSCHED, "url": " dbi:Pg:dbname=a;host=b\n"}
    assert {system: recognised(text) for system, text in texts.items()} == {system: system for system in SYSTEMS}
    with pytest.raises(InvalidInput, match="no system"):
        recognised("hello")


def test_a_file_of_empty_lines_is_nobodys_at_once() -> None:
    """A sign is looked for in each line once: 20,000 empty lines took 11 s."""
    began = process_time()
    with pytest.raises(InvalidInput, match="of no system"):
        recognised("\n" * 20_000)
    assert process_time() - began < 1


@pytest.mark.parametrize("text", [KOYOMI, KEIJI, PERFECTSCHED, "dbi:Pg:dbname=a;host=b"])
def test_the_settings_that_are_written_are_read(text: str, tmp_path: Path) -> None:
    """Each of them, in every section, and the file tells each key of theirs without a password."""
    found = became(text)
    file = tmp_path / "tokimori.toml"
    file.write_text(toml := write_settings(found, "head"))
    machine = Machine(home=HOME, state_dir=tmp_path, config_files=(), cores=1)
    for env, section in settings_of(found).items():
        environ = {} if env is None else {"TOKIMORI_ENV": env}
        loaded = load_settings({}, environ, cwd=tmp_path, config=file, machine=machine)
        assert {name for name, origin in loaded.origins.items() if str(file) in origin} == set(section)
    comments = "\n".join(line for line in toml.splitlines() if line.startswith("#"))
    assert [each.key for each in found if each.key not in comments] == []
    assert [word for word in ("xxx", "secret", ":p@") if word in comments + "".join(map(became_text, found))] == []


_keys = st.sampled_from([*koyomi.KEYS, *keiji.KEYS, *perfectsched.KEYS, "x\ud7ffy", "é"])
_values = st.sampled_from(
    [
        "true",
        "-1",
        "1e999",
        "''",
        "'dbi:mysql:x'",
        "'\\u0000'",
        "[]",
        "{}",
        "2015-05-24",
        "nan",
        "0xffffffffffffffffffff",
    ]
)


@given(
    lines=st.lists(
        st.builds("{}{}{}".format, _keys, st.sampled_from([" = ", "=", ": "]), _values) | st.text(max_size=30),
        max_size=6,
    ),
    system=st.sampled_from(list(SYSTEMS)),
)
@example(lines=['a:\n  log: "\\ud800"'], system="perfectsched")
@example(lines=['"\\ud800":\n  log: x'], system="perfectsched")
@example(lines=["a:\n  log: !!int x"], system="perfectsched")
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_text_is_translated_or_refused(lines: list[str], system: str) -> None:
    """Never a traceback; and what is made of it is TOML whose settings can be."""
    try:
        found = became("\n".join(lines), system)
    except InvalidInput as fault:
        assert fault.field
        return
    toml = write_settings(found, "head")
    toml.encode()
    assert isinstance(tomllib.loads(toml), dict)
    for section in settings_of(found).values():
        for name, value in section.items():
            read_value(name, value, TABLE, base=BASE, home=HOME, is_text=False)


def test_every_key_stands_on_the_page() -> None:
    """With its meaning here."""
    page = (ROOT / "docs/coming-from/settings-of-others.md").read_text()
    keys = [*koyomi.KEYS, *keiji.KEYS, *perfectsched.KEYS]
    assert [key for key in keys if f"`{key}`" not in page] == []
