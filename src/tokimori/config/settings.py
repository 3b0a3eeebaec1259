"""The settings, with name, type, default and meaning, and their sources."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

from msgspec import NODEFAULT, Meta, Struct, field
from msgspec.structs import fields

from tokimori.config.file import ENV, PREFIX, find_file, flattened, from_variables, read_content
from tokimori.config.http import HttpSettings, http_faults
from tokimori.config.secret_files import KEYS, SUFFIX, read_files, variables_with_files
from tokimori.config.secrets import SecretsSettings
from tokimori.config.sections import (
    AppSettings,
    AuditSettings,
    ChannelsSettings,
    DatasourceSettings,
    LogSettings,
    StoreSettings,
    bad_patterns,
    log_faults,
    url_for,
)
from tokimori.config.value import URLS, Machine, read_value, redacted, this_machine
from tokimori.errors import InvalidConfig, InvalidInput, StoreError
from tokimori.model.policies import Seconds
from tokimori.ownership import state_of

MOST_PLACES = 100_000
"""Most runs at a time of a node."""


class NodeSettings(Struct, frozen=True, kw_only=True):
    """Labels of a node, and the way in which it stops."""

    concurrency: Annotated[
        int,
        Meta(
            ge=1,
            le=MOST_PLACES,
            description="Runs at a time; by default 16 for each core, of `tokimori worker` what its processes have.",
        ),
    ]
    labels: Annotated[
        dict[str, str], Meta(description="What jobs may ask of a node, besides the label host that every node carries.")
    ] = field(default_factory=dict)
    max_load: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(
            description="Nothing new is claimed while the machine's load average over a minute is above this; none: no"
            " cap."
        ),
    ] = None
    stop_grace: Annotated[Seconds, Meta(description="Seconds that running runs get to finish when the node stops.")] = (
        30
    )


class WorkerSettings(Struct, frozen=True, kw_only=True):
    """Ticks of a node that are aligned to minutes."""

    interval_minutes: Annotated[
        int,
        Meta(ge=0, le=1440, description="Look for due jobs only every so many whole minutes; 0: whenever one is due."),
    ] = 0
    minimum_interval_seconds: Annotated[
        Seconds, Meta(description="The least seconds between two such ticks, the one at the start included.")
    ] = 30


class ScheduleSettings(Struct, frozen=True, kw_only=True):
    """Time until a node knows what others changed."""

    update_interval_seconds: Annotated[
        float,
        Meta(
            ge=0.1,
            le=86_400,
            description="The most seconds until a node knows of an edit, even without notifications; more than 2, the"
            " time from one beat to the next, has no effect.",
        ),
    ] = 2


class TargetsSettings(Struct, frozen=True, kw_only=True):
    """Rights of targets of jobs on this node."""

    private_addresses: Annotated[
        tuple[str, ...],
        Meta(
            description="Networks such as 10.1.0.0/16 to which requests of jobs may go though not public; none:"
            " public addresses alone."
        ),
    ] = ()


class Settings(Struct, frozen=True, kw_only=True):
    """All settings. These classes are their only table: a setting that they don't name is unknown."""

    store: Annotated[str, Meta(min_length=1, description="The URL of the store; by default SQLite in state_dir.")]
    time_zone: Annotated[str, Meta(description="The IANA time zone of jobs that name none.")] = "UTC"
    state_dir: Annotated[Path, Meta(description="Where the output of runs and the default store are kept.")]
    tasks_dir: Annotated[
        Path | None, Meta(description="The folder of tasks as code, whose .env files a node reads; none: no workspace.")
    ] = None
    node: NodeSettings
    app: AppSettings
    worker: WorkerSettings
    schedule: ScheduleSettings
    http: HttpSettings
    targets: TargetsSettings
    secrets: SecretsSettings
    audit: AuditSettings
    channels: ChannelsSettings
    log: LogSettings
    datasource: DatasourceSettings

    @property
    def job_store(self) -> str:
        """Return the URL of the store of jobs and runs."""
        return url_for("datasource.job", self.datasource.job, self.store)

    @property
    def semaphore_store(self) -> str | None:
        """Return the URL of the store of semaphores; None: that of the jobs."""
        if not self.datasource.semaphore.said:
            return None
        url = url_for("datasource.semaphore", self.datasource.semaphore, self.job_store)
        return None if url == self.job_store else url


DEFAULT = "default"
FLAG = "flag"
_JOB_STORE = "datasource.job."


class Setting(NamedTuple):
    """One setting: `http.port` in flags, `TOKIMORI_HTTP_PORT` as a variable, `port` of `[http]` in a file.

    `default` is `NODEFAULT` if it depends on the machine.
    """

    name: str
    kind: object
    default: object
    meaning: str


class Loaded(NamedTuple):
    """The settings, their sources (`default`, `flag`, a variable or a file), and warnings for people.

    `env` is the section of the file that is in force, if one is.
    """

    settings: Settings
    origins: Mapping[str, str]
    warnings: tuple[str, ...]
    env: str | None = None


class ShownSetting(Struct, frozen=True, kw_only=True):
    """A setting as `config show` prints it; passwords are masked."""

    name: str
    value: object
    origin: str
    meaning: str


def load_settings(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    *,
    cwd: Path,
    config: Path | None = None,
    machine: Machine | None = None,
    check_store: Callable[[str], object] | None = None,
) -> Loaded:
    """Return the settings: for each the flag, else the variable, else the file's value, else the default.

    The section `[env.NAME]` named by TOKIMORI_ENV overrides the rest of the file.

    `flags` are named as in `Setting`; `config` is a configuration file given by name. `check_store` raises an error for
    a bad URL of a store. Raises `InvalidConfig` with every fault of every source.
    """
    machine = machine or this_machine(environ)
    table = {setting.name: setting for setting in settings_table()}
    found = find_file(config, environ, cwd, machine)
    secret = variables_with_files(table) - {KEYS, "TOKIMORI_HTTP_SECRET"}  # these files are read again and again
    from_files = read_files(environ, secret)
    variables, warnings = from_variables(_without_files(environ, secret), table)
    faults = [*found.faults, *from_files.faults]
    env = environ.get(ENV) or None
    layers = [] if faults else list(_layers_of(found.path, env, table, faults))
    layers.append(_Layer(variables, None, cwd, is_text=True))
    layers.append(_Layer(from_variables(from_files.values, table)[0], None, cwd, is_text=True, suffix=SUFFIX))
    layers.append(_Layer(flags, FLAG, cwd, is_text=False))
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        if (
            "store" in layer.values and layer.in_force
        ):  # a store that is named here overrides weaker sources of that of the jobs
            values = {name: value for name, value in values.items() if not name.startswith(_JOB_STORE)}
        for name, value in _read_layer(layer, table, machine, faults, check_store):
            if layer.in_force:
                values[name], origins[name] = value, layer.origin_of(name)
    settings = None if faults else _built(_defaults(table, values, machine) | values)
    if settings is None or (faults := _contradictions(settings)):
        raise InvalidConfig(faults)
    origins = {name: origin for name, origin in origins.items() if name in values}
    warned = (*found.warnings, *warnings, *from_files.warnings)
    return Loaded(settings, {name: origins.get(name, DEFAULT) for name in table}, warned, env)


def rereading(environ: Mapping[str, str], read: Callable[[], Settings]) -> Callable[[], Settings | None] | None:
    """Return a function that reads the settings anew if a file of a secret has changed; None if there is none."""
    variables = variables_with_files({setting.name for setting in settings_table()}) - {KEYS, "TOKIMORI_HTTP_SECRET"}
    files = [Path(environ[each + SUFFIX]) for each in sorted(variables) if environ.get(each + SUFFIX)]
    known = [state_of(each) for each in files]

    def changed() -> Settings | None:
        if (found := [state_of(each) for each in files]) == known:
            return None
        settings = read()
        known[:] = found
        return settings

    return changed if files else None


def settings_table() -> tuple[Setting, ...]:
    """Return every setting, section by section."""
    return tuple(_settings_of(Settings, ""))


def shown_settings(loaded: Loaded) -> tuple[ShownSetting, ...]:
    """Return every setting with its value and its source; first the section that is in force, if one is."""
    section = ShownSetting(name="env", value=loaded.env, origin=ENV, meaning="The section [env.NAME] that is in force.")
    return (() if loaded.env is None else (section,)) + tuple(
        ShownSetting(
            name=setting.name,
            value=_shown(setting.name, _value_of(loaded.settings, setting.name)),
            origin=loaded.origins[setting.name],
            meaning=setting.meaning,
        )
        for setting in settings_table()
    )


class _Layer(NamedTuple):
    values: Mapping[str, object]
    origin: str | None
    base: Path
    is_text: bool
    in_force: bool = True
    suffix: str = ""

    def origin_of(self, name: str) -> str:
        return self.origin or PREFIX + name.upper().replace(".", "_") + self.suffix


def _without_files(environ: Mapping[str, str], secret: Collection[str]) -> Mapping[str, str]:
    """Return the environment without the variables that name files of these."""
    files = {name + SUFFIX for name in (*secret, KEYS)}
    return {name: text for name, text in environ.items() if name not in files}


def _layers_of(path: Path | None, env: str | None, table: Mapping[str, Setting], faults: list[str]) -> Iterator[_Layer]:
    """Yield the layers of the file. Sections that are not in force are checked with the rest."""
    content = read_content(path, env)
    faults += content.faults
    if path is None:
        return
    yield _Layer(flattened(content.always, table), str(path), path.parent, is_text=False)
    for name, section in content.sections.items():
        origin = f"{path} [env.{name}]"
        yield _Layer(flattened(section, table), origin, path.parent, is_text=False, in_force=name == env)


def _read_layer(
    layer: _Layer,
    table: Mapping[str, Setting],
    machine: Machine,
    faults: list[str],
    check_store: Callable[[str], object] | None,
) -> Iterator[tuple[str, object]]:
    """Yield the valid values of a layer; the faults of the others go to `faults`."""
    for name, given in layer.values.items():
        try:
            value = read_value(name, given, table, base=layer.base, home=machine.home, is_text=layer.is_text)
            if name in URLS and check_store is not None:
                check_store(str(value))
            yield name, value
        except (InvalidInput, StoreError) as fault:
            allowed = f"; allowed: {fault.allowed}" if fault.allowed and fault.allowed not in fault.message else ""
            message = f"{name}: {fault.message.removeprefix('store: ')}" if name in URLS else fault.message
            faults.append(f"{layer.origin_of(name)}: {message}{allowed}")


def _settings_of(section: type[Struct], prefix: str) -> Iterator[Setting]:
    hints = get_type_hints(section, include_extras=True)
    for each in fields(section):
        kind = hints[each.name]
        if isinstance(kind, type) and issubclass(kind, Struct):
            yield from _settings_of(kind, f"{prefix}{each.name}.")
        else:
            default = each.default if each.default_factory is NODEFAULT else each.default_factory()
            meaning = next(meta.description for meta in reversed(kind.__metadata__) if meta.description)
            yield Setting(prefix + each.name, kind, default, meaning)


def _defaults(table: Mapping[str, Setting], given: Mapping[str, object], machine: Machine) -> dict[str, object]:
    state_dir = given.get("state_dir", machine.state_dir)
    assert isinstance(state_dir, Path)  # noqa: S101 its type says so
    of_the_machine: dict[str, object] = {
        "store": machine.default_store(state_dir),
        "state_dir": state_dir,
        "node.concurrency": _places(table, given, machine),
        "app.processes": machine.cores,
    }
    return {name: of_the_machine.get(name, setting.default) for name, setting in table.items()}


def _places(table: Mapping[str, Setting], given: Mapping[str, object], machine: Machine) -> int:
    """Return the default concurrency of a node: one for functions alone has as many as can begin there."""
    name = "app.concurrency"
    processes, each = given.get("app.processes", machine.cores), given.get(name, table[name].default)
    assert isinstance(processes, int)  # noqa: S101 its type says so
    assert isinstance(each, int)  # noqa: S101 its type says so
    return min(MOST_PLACES, processes * each) if given.get("app.only") else 16 * machine.cores


def _built(values: Mapping[str, object]) -> Settings:
    arguments: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for name, value in values.items():
        section, _, key = name.rpartition(".")
        arguments[section][key] = value
    return Settings(
        **arguments[""],
        node=NodeSettings(**arguments["node"]),
        app=AppSettings(**arguments["app"]),
        worker=WorkerSettings(**arguments["worker"]),
        schedule=ScheduleSettings(**arguments["schedule"]),
        http=HttpSettings(**arguments["http"]),
        targets=TargetsSettings(**arguments["targets"]),
        secrets=SecretsSettings(**arguments["secrets"]),
        audit=AuditSettings(**arguments["audit"]),
        channels=ChannelsSettings(**arguments["channels"]),
        log=LogSettings(**arguments["log"]),
        datasource=DatasourceSettings(
            job=StoreSettings(**arguments["datasource.job"]),
            semaphore=StoreSettings(**arguments["datasource.semaphore"]),
        ),
    )


def _contradictions(settings: Settings) -> list[str]:
    """Return the faults of combined values."""
    found = []
    worker = settings.worker
    most = worker.interval_minutes * 60
    if most and worker.minimum_interval_seconds >= most:
        shown = f"worker.minimum_interval_seconds: {worker.minimum_interval_seconds:g}"
        found.append(f"{shown} is not less than worker.interval_minutes; allowed: below {most}")
    found += [*http_faults(settings.http), *_bad_addresses(settings), *bad_patterns(settings.app)]
    found += log_faults(settings.log)
    job, semaphore = settings.datasource.job, settings.datasource.semaphore
    for section, given, otherwise in (
        ("job", job, settings.store),
        ("semaphore", semaphore, job.url or settings.store),
    ):
        try:
            url_for(f"datasource.{section}", given, otherwise)
        except InvalidInput as fault:
            found.append(f"{fault.message}; allowed: {fault.allowed}")
    return found


def _bad_addresses(settings: Settings) -> Iterator[str]:
    """Yield the invalid addresses."""
    for text in settings.targets.private_addresses:
        try:
            ip_network(text)
        except ValueError as fault:
            yield f"targets.private_addresses: {fault}; allowed: networks such as 10.1.0.0/16, or addresses"


def _value_of(settings: Settings, name: str) -> object:
    value: object = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _shown(name: str, value: object) -> object:
    return str(value) if isinstance(value, Path) else redacted(name, value)
