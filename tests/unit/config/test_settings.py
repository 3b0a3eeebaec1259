import pwd
from pathlib import Path
from typing import NoReturn

import pytest

from tokimori.clock import SystemClock
from tokimori.config.settings import Loaded, load_settings, settings_table, shown_settings
from tokimori.config.value import Machine, this_machine
from tokimori.errors import InvalidConfig, InvalidInput
from tokimori.stores.open import open_store
from tokimori.stores.redis import address as redis_address


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(
        home=tmp_path / "home",
        state_dir=tmp_path / "state",
        config_files=(tmp_path / "user.toml", tmp_path / "etc.toml"),
        cores=2,
    )


def load(
    machine: Machine,
    cwd: Path,
    flags: dict[str, object] | None = None,
    environ: dict[str, str] | None = None,
    config: Path | None = None,
) -> Loaded:
    return load_settings(flags or {}, environ or {}, cwd=cwd, config=config, machine=machine)


def faults(*arguments: object, **options: object) -> tuple[str, ...]:
    with pytest.raises(InvalidConfig) as caught:
        load(*arguments, **options)  # type: ignore[arg-type]
    return caught.value.faults


def test_defaults(machine: Machine, tmp_path: Path) -> None:
    """Without any source there is a store in the state directory, 16 runs for each core, and a door on loopback."""
    settings = load(machine, tmp_path).settings
    assert settings.store == f"sqlite://{tmp_path}/state/tokimori.db"
    assert settings.state_dir == tmp_path / "state"
    assert (settings.node.concurrency, settings.node.stop_grace, settings.node.labels) == (32, 30, {})
    assert (settings.http.enabled, settings.http.interface, settings.http.port) == (True, "127.0.0.1", 8000)
    assert not settings.http.port_fixed
    assert (settings.log.level, settings.log.format, settings.log.file) == ("info", "text", None)
    assert settings.time_zone == "UTC"


def test_precedence(machine: Machine, tmp_path: Path) -> None:
    """A flag beats the environment, which beats the file, which beats the default; each says where it came from."""
    file = tmp_path / "tokimori.toml"
    file.write_text('time_zone = "Asia/Tokyo"\n[http]\nport = 1\n[node]\nconcurrency = 1\nstop_grace = 1\n')
    environ = {"TOKIMORI_HTTP_PORT": "2", "TOKIMORI_NODE_CONCURRENCY": "2"}
    loaded = load(machine, tmp_path, {"http.port": 3}, environ)
    assert (loaded.settings.http.port, loaded.origins["http.port"]) == (3, "flag")
    assert (loaded.settings.node.concurrency, loaded.origins["node.concurrency"]) == (2, "TOKIMORI_NODE_CONCURRENCY")
    assert (loaded.settings.node.stop_grace, loaded.origins["node.stop_grace"]) == (1.0, str(file))
    assert loaded.origins["store"] == "default"


@pytest.mark.parametrize(
    ("given", "places"),
    [
        ({"app.load": "jobs:app"}, 32),
        ({"app.load": "jobs:app", "app.only": True}, 2 * 16),
        ({"app.load": "jobs:app", "app.only": True, "app.processes": 4, "app.concurrency": 250}, 1000),
        ({"app.load": "jobs:app", "app.only": True, "app.processes": 1, "app.concurrency": 1}, 1),
        ({"app.load": "jobs:app", "app.only": True, "app.processes": 1000, "app.concurrency": 10_000}, 100_000),
        ({"app.load": "jobs:app", "app.processes": 4, "app.concurrency": 250}, 32),
        ({"app.load": "jobs:app", "app.processes": 1, "app.concurrency": 1}, 32),
        ({"app.load": "jobs:app", "app.only": True, "app.concurrency": 250, "node.concurrency": 5}, 5),
    ],
)
def test_a_node_for_functions_alone_has_their_places(
    machine: Machine, tmp_path: Path, given: dict[str, object], places: int
) -> None:
    """Exactly these, unless somebody says otherwise; one that runs commands, too, does not begin hundreds of them."""
    loaded = load(machine, tmp_path, {"store": "memory:", **given})
    assert loaded.settings.node.concurrency == places


ENVIRONMENTS = """
time_zone = "Asia/Tokyo"
store = "memory:"
[http]
port = 1
interface = "::1"
[env.development]
time_zone = "UTC"
[env.production]
store = "redis://db"
http.port = 2
"""


def test_the_environment_picks_a_section(machine: Machine, tmp_path: Path) -> None:
    """What `[env.production]` says counts more than the rest of the file, less than a variable; others nothing."""
    file = tmp_path / "tokimori.toml"
    file.write_text(ENVIRONMENTS)
    loaded = load(machine, tmp_path, environ={"TOKIMORI_ENV": "production", "TOKIMORI_HTTP_INTERFACE": "::2"})
    assert (loaded.settings.http.port, loaded.origins["http.port"]) == (2, f"{file} [env.production]")
    assert (loaded.settings.time_zone, loaded.origins["time_zone"]) == ("Asia/Tokyo", str(file))
    assert (loaded.settings.store, loaded.settings.http.interface) == ("redis://db", "::2")
    shown = shown_settings(loaded)
    assert (shown[0].name, shown[0].value, shown[0].origin) == ("env", "production", "TOKIMORI_ENV")
    assert loaded.warnings == ()
    loaded = load(machine, tmp_path, environ={"TOKIMORI_ENV": ""})
    assert (loaded.settings.http.port, loaded.settings.time_zone, loaded.env) == (1, "Asia/Tokyo", None)


def test_a_section_that_is_not_there_is_named(machine: Machine, tmp_path: Path) -> None:
    """With those that there are: the settings of the rest of the file alone would be those of nobody."""
    environ = {"TOKIMORI_ENV": "prod"}
    none = "TOKIMORI_ENV: 'prod' is in force, but there is no configuration file; sections that there are: none"
    assert faults(machine, tmp_path, environ=environ) == (none,)
    file = tmp_path / "tokimori.toml"
    file.write_text(ENVIRONMENTS)
    assert faults(machine, tmp_path, environ=environ) == (
        f"TOKIMORI_ENV: 'prod' is in force, but {file} has no section [env.prod]; "
        "sections that there are: development, production",
    )


def test_every_section_is_checked(machine: Machine, tmp_path: Path) -> None:
    """Whichever is in force: a fault of the one for production is found before it is used there."""
    file = tmp_path / "tokimori.toml"
    file.write_text("[env.production]\nhttp.prot = 1\n[env.development]\n")
    fault = f"{file} [env.production]: http.prot: there is no such setting; did you mean http.port?"
    assert faults(machine, tmp_path, environ={"TOKIMORI_ENV": "development"}) == (fault,)
    file.write_text("env.production = 1\n")
    assert faults(machine, tmp_path) == (
        f"{file}: env.production: 1 is no section; allowed: [env.production] with settings below it",
    )
    file.write_text("env = 1\n")
    assert "1 is no section" in faults(machine, tmp_path)[0]


def test_default_store_follows_state_dir(machine: Machine, tmp_path: Path) -> None:
    """The default store lies in the state directory that somebody chose, whatever characters its path has."""
    settings = load(machine, tmp_path, environ={"TOKIMORI_STATE_DIR": "/srv/a b#c"}).settings
    assert settings.store == "sqlite:///srv/a%20b%23c/tokimori.db"


def test_variables_are_read_by_type(machine: Machine, tmp_path: Path) -> None:
    """A variable is text, and is read as what its setting is."""
    environ = {
        "TOKIMORI_NODE_LABELS": "host=a, ssd=yes",
        "TOKIMORI_HTTP_ENABLED": "false",
        "TOKIMORI_NODE_STOP_GRACE": "1.5",
        "TOKIMORI_LOG_FORMAT": "json",
        "TOKIMORI_LOG_FILE": "~/log/t.log",
        "TOKIMORI_TIME_ZONE": "",
    }
    settings = load(machine, tmp_path, environ=environ).settings
    assert settings.node.labels == {"host": "a", "ssd": "yes"}
    assert not settings.http.enabled
    assert settings.node.stop_grace == 1.5
    assert settings.log.format == "json"
    assert settings.log.file == tmp_path / "home/log/t.log"
    assert settings.time_zone == "UTC"


def test_aligned_ticks(machine: Machine, tmp_path: Path) -> None:
    """Koyomi's `[worker]` and `[schedule]` are read as they are; without them a node fires at every moment."""
    settings = load(machine, tmp_path).settings
    assert (settings.worker.interval_minutes, settings.schedule.update_interval_seconds) == (0, 2)
    (tmp_path / "tokimori.toml").write_text(
        "[worker]\ninterval_minutes = 1\nminimum_interval_seconds = 30\n[schedule]\nupdate_interval_seconds = 120\n"
    )
    settings = load(machine, tmp_path).settings
    assert (settings.worker.interval_minutes, settings.worker.minimum_interval_seconds) == (1, 30)
    assert settings.schedule.update_interval_seconds == 120


def test_the_minimum_is_below_the_interval(machine: Machine, tmp_path: Path) -> None:
    """Ticks that can't be aligned because they must lie too far apart are refused."""
    environ = {"TOKIMORI_WORKER_INTERVAL_MINUTES": "1", "TOKIMORI_WORKER_MINIMUM_INTERVAL_SECONDS": "60"}
    assert faults(machine, tmp_path, environ=environ) == (
        "worker.minimum_interval_seconds: 60 is not less than worker.interval_minutes; allowed: below 60",
    )
    assert load(machine, tmp_path, environ={"TOKIMORI_WORKER_MINIMUM_INTERVAL_SECONDS": "90"})


def test_relative_paths(machine: Machine, tmp_path: Path) -> None:
    """A relative path starts at the directory of the file that says it, or else at the current one."""
    (tmp_path / "sub").mkdir()
    file = tmp_path / "sub" / "x.toml"
    file.write_text('state_dir = "state"\n')
    settings = load(machine, tmp_path, {"log.file": "log"}, config=Path("sub/x.toml")).settings
    assert settings.state_dir == tmp_path / "sub/state"
    assert settings.log.file == tmp_path / "log"


def test_every_fault_at_once(machine: Machine, tmp_path: Path) -> None:
    """Whatever is wrong anywhere is told in one go, each with its source, the value and what is allowed."""
    file = tmp_path / "tokimori.toml"
    file.write_text(
        'stor = "x"\ntime_zone = "Europe/Pariss"\nfoo.bar = 1\n[http]\nport = "8000"\nprot = 1\n'
        '[node]\nstop_grace = nan\nlabels = {"a b" = "c"}\n[log]\nlevel = "loud"\nfile = 3\n'
    )
    environ = {"TOKIMORI_HTTP_ENABLED": "maybe", "TOKIMORI_NODE_LABELS": "x"}
    assert faults(machine, tmp_path, {"http.port": 70_000}, environ) == (
        f"{file}: stor: there is no such setting; did you mean store?",
        f"{file}: time_zone: there is no time zone 'Europe/Pariss'; did you mean Europe/Paris?; "
        "allowed: an IANA name such as UTC or Europe/Paris",
        f"{file}: foo: there is no such setting",
        f"{file}: http.port: '8000' is not allowed; allowed: a whole number, 0 to 65535",
        f"{file}: http.prot: there is no such setting; did you mean http.port?",
        f"{file}: node.stop_grace: nan is not allowed; allowed: a number of seconds, at least 0",
        f"{file}: node.labels: 'a b' is not a word; allowed: 1 to 128 of A-Z a-z 0-9 . _ -",
        f"{file}: log.level: 'loud' is not allowed; allowed: one of debug, info, warning, error",
        f"{file}: log.file: 3 is not allowed; allowed: the path of a file or directory, as text",
        "TOKIMORI_HTTP_ENABLED: http.enabled: 'maybe' is not allowed; allowed: true or false",
        "TOKIMORI_NODE_LABELS: node.labels: 'x' is not allowed; "
        "allowed: a table of texts; as a variable: key=value,key=value",
        "flag: http.port: 70000 is not allowed; allowed: a whole number, 0 to 65535",
    )


def test_a_key_of_another_section_is_guessed(machine: Machine, tmp_path: Path) -> None:
    """A setting in the wrong section is recognised by its last part."""
    (tmp_path / "tokimori.toml").write_text("port = 1\n")
    assert faults(machine, tmp_path)[0].endswith("port: there is no such setting; did you mean http.port?")


def test_bad_toml_names_file_and_line(machine: Machine, tmp_path: Path) -> None:
    """A file that is no TOML is named with the line, and the other sources are still checked."""
    file = tmp_path / "tokimori.toml"
    file.write_text('store = "memory:"\n[http\n')
    first, second = faults(machine, tmp_path, environ={"TOKIMORI_HTTP_PORT": "x"})
    assert first.startswith(f"{file}:2: ")
    assert second.startswith("TOKIMORI_HTTP_PORT: ")


def test_a_file_that_is_cut_off(machine: Machine, tmp_path: Path) -> None:
    """A TOML file that ends too early is named."""
    file = tmp_path / "tokimori.toml"
    file.write_text("store =")
    assert faults(machine, tmp_path)[0].startswith(f"{file}")


def test_a_file_in_another_encoding(machine: Machine, tmp_path: Path) -> None:
    """A file that is not UTF-8 is named."""
    file = tmp_path / "tokimori.toml"
    file.write_bytes(b'store = "\xff"\n')
    assert faults(machine, tmp_path) == (f"{file}: is not UTF-8 text",)


def test_a_directory_is_no_file(machine: Machine, tmp_path: Path) -> None:
    """A directory in the place of the file is an error and not passed over."""
    (tmp_path / "tokimori.toml").mkdir()
    assert faults(machine, tmp_path) == (f"{tmp_path}/tokimori.toml: can't be read: Is a directory",)


@pytest.mark.parametrize("by", ["flag", "variable"])
def test_a_named_file_must_exist(machine: Machine, tmp_path: Path, by: str) -> None:
    """A file that somebody names and that does not exist is an error, even where another one exists."""
    (tmp_path / "tokimori.toml").write_text("")
    if by == "flag":
        assert faults(machine, tmp_path, config=Path("no")) == (f"--config: there is no file {tmp_path}/no",)
    else:
        expected = (f"TOKIMORI_CONFIG_PATH: there is no file {tmp_path}/no",)
        assert faults(machine, tmp_path, environ={"TOKIMORI_CONFIG_PATH": "no"}) == expected


def test_order_of_files(machine: Machine, tmp_path: Path) -> None:
    """Of the flag's file, the variable's, the current directory's, the user's and the system's the first is read."""
    names = ["flag", "variable", "tokimori", "user", "etc"]
    for port, name in enumerate(names):
        (tmp_path / f"{name}.toml").write_text(f"http.port = {port}\n")
    environ = {"TOKIMORI_CONFIG_PATH": "variable.toml"}
    ports = [load(machine, tmp_path, environ=environ, config=Path("flag.toml")).settings.http.port]
    ports.append(load(machine, tmp_path, environ=environ).settings.http.port)
    for name in names[2:]:
        ports.append(load(machine, tmp_path).settings.http.port)
        (tmp_path / f"{name}.toml").unlink()
    assert ports == [0, 1, 2, 3, 4]


def test_unknown_variables_are_warned_of(machine: Machine, tmp_path: Path) -> None:
    """An unknown TOKIMORI_ variable is no error; those of a job's own run, and foreign ones, are not even mentioned."""
    environ = {"TOKIMORI_HTTP_PROT": "1", "TOKIMORI_RUN_ID": "x", "TOKIMORI_DEBUG": "1", "HOME": "/"}
    warnings = load(machine, tmp_path, environ=environ).warnings
    ignored = "TOKIMORI_HTTP_PROT: there is no such setting; the variable is ignored"
    assert warnings == (f"{ignored}; did you mean TOKIMORI_HTTP_PORT?",)


def test_passwords_are_masked(machine: Machine, tmp_path: Path) -> None:
    """What is shown to people holds no password."""
    url = "postgresql://me:p@ss/w:rd@db.example:5432/jobs?sslmode=require&sslpassword=secret"
    loaded = load(machine, tmp_path, {"store": url})
    shown = next(each for each in shown_settings(loaded) if each.name == "store")
    assert shown.value == "postgresql://me:***@db.example:5432/jobs?sslmode=require&sslpassword=***"
    assert loaded.settings.store == url


SECRETS = (
    "redis://SECRET@host",
    "rediss://SECRET@host/0",
    "valkey+unix://SECRET@/path",
    "redis://:SECRET@host",
    "postgresql://me@db/jobs?pass%77ord=SECRET",
    "postgresql://me@db/jobs?sslmode=require&PASSWORD=SECRET",
    "mariadb://me:SE/CRET@db/jobs?a=1",
    "SECRET",
    "me:SECRET@db",
)


@pytest.mark.parametrize("name", ["store", "datasource.job.url", "datasource.semaphore.url"])
@pytest.mark.parametrize("given", [*SECRETS, list(SECRETS[:1]), {"url": SECRETS[0]}])
def test_no_message_shows_a_password(machine: Machine, tmp_path: Path, name: str, given: object) -> None:
    """Neither what is shown of the settings nor what is said against them, whatever stands in a URL's place."""
    said = ""
    try:
        said = str(shown_settings(load(machine, tmp_path, {name: given, "datasource.semaphore.user": "me"})))
    except InvalidConfig as fault:
        said = str(fault)
    assert said
    assert "CRET" not in said


@pytest.mark.parametrize("given", ["SECRET", "redis+x://SECRET@host", "x:SECRET", "redis://SECRET@127.0.0.1:1/0"])
def test_no_refusal_of_a_store_shows_a_password(given: str) -> None:
    """What is no store's URL may be a password in the wrong place."""
    try:
        shown = redis_address.address_of(given).name
        open_store(given, SystemClock())
    except InvalidInput as fault:
        shown = f"{fault.message} {fault.value}"
    assert "SECRET" not in shown


def test_shown_settings_cover_the_table(machine: Machine, tmp_path: Path) -> None:
    """Every setting is shown, with a meaning and an origin."""
    shown = shown_settings(load(machine, tmp_path))
    assert [each.name for each in shown] == [setting.name for setting in settings_table()]
    assert all(each.meaning and each.origin == "default" for each in shown)


def test_relative_xdg_directories_are_ignored() -> None:
    """The XDG specification has relative paths ignored; absolute ones are used."""
    machine = this_machine({"HOME": "/home/me", "XDG_CONFIG_HOME": "etc"})
    assert machine.config_files[0] == Path("/home/me/.config/tokimori/tokimori.toml")
    machine = this_machine({"HOME": "/home/me", "XDG_CONFIG_HOME": "/x"})
    assert machine.config_files == (Path("/x/tokimori/tokimori.toml"), Path("/etc/tokimori/tokimori.toml"))


def test_an_unknown_user_is_at_home_at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whom the system does not know, as in a container, and who has no HOME, has settings all the same."""

    def unknown(uid: int) -> NoReturn:
        raise KeyError(uid)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert this_machine({}).home == Path("/")


@pytest.mark.parametrize("name", ["max_runs_per_process", "most_memory"])
def test_a_setting_that_may_be_none_is_read_and_checked(machine: Machine, tmp_path: Path, name: str) -> None:
    """From a flag as from a variable; what it may be is said."""
    variable = f"TOKIMORI_APP_{name.upper()}"
    assert getattr(load(machine, tmp_path, {f"app.{name}": 5}).settings.app, name) == 5
    assert getattr(load(machine, tmp_path, environ={variable: "6"}).settings.app, name) == 6
    for given in ("0", "many"):
        assert faults(machine, tmp_path, environ={variable: given})[0].endswith("allowed: a whole number, at least 1")


def test_patterns_of_stored_functions_are_checked(machine: Machine, tmp_path: Path) -> None:
    """Where the settings are read, and not by a worker process."""
    assert load(machine, tmp_path, environ={"TOKIMORI_APP_STORED": "a:*,b.c:D"}).settings.app.stored == ("a:*", "b.c:D")
    fault = "app.stored: 'reports' is not a pattern; allowed: such as reports.tasks:*"
    assert faults(machine, tmp_path, environ={"TOKIMORI_APP_STORED": "reports"}) == (fault,)


def test_the_load_cap_is_a_number(machine: Machine, tmp_path: Path) -> None:
    """As `uptime` shows the load; none by default."""
    assert load(machine, tmp_path).settings.node.max_load is None
    assert load(machine, tmp_path, environ={"TOKIMORI_NODE_MAX_LOAD": "1.5"}).settings.node.max_load == 1.5
    fault = "flag: node.max_load: -1.0 is not allowed; allowed: a number, at least 0"
    assert faults(machine, tmp_path, {"node.max_load": -1.0}) == (fault,)


def test_a_certificate_comes_with_its_key(machine: Machine, tmp_path: Path) -> None:
    """One without the other is refused: the door would speak no TLS, and nobody would know."""
    assert load(machine, tmp_path).settings.http.tls_cert is None
    for said, missing in (("cert", "key"), ("key", "cert")):
        (fault,) = faults(machine, tmp_path, {f"http.tls_{said}": "a.pem"})
        assert fault.startswith(f"http.tls_{missing}: it is missing")
    both = load(machine, tmp_path, {"http.tls_cert": "a.pem", "http.tls_key": "b.pem"}).settings.http
    assert both.tls_cert == tmp_path / "a.pem"


def test_a_rate_is_said_so_that_it_can_be_read(machine: Machine, tmp_path: Path) -> None:
    """By default there is none, and one that says no number for a span of time is a fault of the settings."""
    assert load(machine, tmp_path).settings.http.rate is None
    assert load(machine, tmp_path, {"http.rate": "100/s"}).settings.http.rate == "100/s"
    (fault,) = faults(machine, tmp_path, environ={"TOKIMORI_HTTP_RATE": "often"})
    assert fault.startswith("http.rate: 'often' is no rate; allowed: ") and "100/s" in fault


@pytest.mark.parametrize(
    "text", ["", "/", "tokimori", "/tokimori/", "/a//b", "/a/../b", "/.a", "/a b", "/a?b", "/api", "/login/x"]
)
def test_a_prefix_that_can_not_be_one_is_refused(machine: Machine, tmp_path: Path, text: str) -> None:
    """It would lead nowhere, or hide paths of the door."""
    (fault,) = faults(machine, tmp_path, {"http.path_prefix": text})
    assert fault.startswith("http.path_prefix: ") and "/tokimori" in fault


def test_addresses_get_the_prefix_unless_they_have_a_path(machine: Machine, tmp_path: Path) -> None:
    """Where the door listens, and where others reach it: who says a path himself means it."""
    without = load(machine, tmp_path).settings.http
    http = load(machine, tmp_path, {"http.path_prefix": "/a/b"}).settings.http
    assert without.below_prefix("http://127.0.0.1:8000/") == "http://127.0.0.1:8000/"
    assert http.below_prefix("http://127.0.0.1:8000/") == "http://127.0.0.1:8000/a/b/"
    assert http.below_prefix("https://example.org") == "https://example.org/a/b/"
    assert http.below_prefix("https://example.org/a/b") == "https://example.org/a/b"
