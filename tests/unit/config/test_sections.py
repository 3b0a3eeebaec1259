"""Where jobs and semaphores are kept."""

from pathlib import Path

import pytest

from tokimori.clock import SystemClock
from tokimori.config.settings import Settings, load_settings, shown_settings
from tokimori.config.value import Machine
from tokimori.errors import InvalidConfig
from tokimori.stores.open import open_store

POSTGRES = "postgresql://ada:old@db:5432/t"


def load(
    folder: Path, text: str = "", *, flags: dict[str, object] | None = None, environ: dict[str, str] | None = None
) -> Settings:
    (folder / "tokimori.toml").write_text(text)
    machine = Machine(home=folder, state_dir=folder, config_files=(), cores=1)
    return load_settings(
        flags or {},
        environ or {},
        cwd=folder,
        machine=machine,
        check_store=lambda url: open_store(url, SystemClock()),
    ).settings


def test_one_store_keeps_everything(tmp_path: Path) -> None:
    """Unless somebody says otherwise, semaphores are with the jobs."""
    settings = load(tmp_path, f'store = "{POSTGRES}"')
    assert (settings.job_store, settings.semaphore_store) == (POSTGRES, None)


@pytest.mark.parametrize(
    ("section", "job", "semaphore"),
    [
        ('job]\nurl = "redis://r/1"', "redis://r/1", None),
        ('job]\nuser = "eve"', "postgresql://eve:old@db:5432/t", None),
        ('job]\npassword = "a/b@c"', "postgresql://ada:a%2Fb%40c@db:5432/t", None),
        ('semaphore]\nurl = "redis://r/1"', POSTGRES, "redis://r/1"),
        ('semaphore]\nurl = "redis://r/1"\npassword = "p"', POSTGRES, "redis://:p@r/1"),
        ('semaphore]\nuser = "eve"\npassword = "p"', POSTGRES, "postgresql://eve:p@db:5432/t"),
        (f'semaphore]\nurl = "{POSTGRES}"', POSTGRES, None),
        (
            'job]\nuser = "j"\n[datasource.semaphore]\npassword = "p"',
            "postgresql://j:old@db:5432/t",
            "postgresql://j:p@db:5432/t",
        ),
    ],
)
def test_what_a_section_says_stands_in_place(tmp_path: Path, section: str, job: str, semaphore: str | None) -> None:
    """URL, user and password, each by itself; the semaphores' are those of the jobs where nothing is said."""
    settings = load(tmp_path, f'store = "{POSTGRES}"\n[datasource.{section}\n')
    assert (settings.job_store, settings.semaphore_store) == (job, semaphore)


def test_who_names_a_store_means_it(tmp_path: Path) -> None:
    """A flag or a variable that names the store beats what a file says of that of the jobs, not of the semaphores."""
    file = '[datasource.job]\nurl = "redis://r/1"\nuser = "eve"\n[datasource.semaphore]\nurl = "redis://r/2"\n'
    for given in ({"flags": {"store": POSTGRES}}, {"environ": {"TOKIMORI_STORE": POSTGRES}}):
        settings = load(tmp_path, file, **given)  # type: ignore[arg-type]
        assert (settings.job_store, settings.semaphore_store) == (POSTGRES, "redis://r/2")
    strong = {"TOKIMORI_STORE": POSTGRES, "TOKIMORI_DATASOURCE_JOB_USER": "zoe"}
    assert load(tmp_path, file, environ=strong).job_store == "postgresql://zoe:old@db:5432/t"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[datasource.semaphore]\nurl = "ftp://x"', "datasource.semaphore.url: ftp: not the URL of a store"),
        ('[datasource.job]\nurl = ""', "datasource.job.url: '' is not allowed"),
        ('[datasource.job]\nuser = "eve"', "datasource.job.user: a sqlite store has no accounts"),
        (
            '[datasource.semaphore]\npassword = "geheim"',
            "datasource.semaphore.password: a sqlite store has no accounts",
        ),
        ("[datasource.semaphore]\npassword = 4711", "datasource.semaphore.password: '***' is not allowed"),
        ('[datasource.semaphores]\nurl = "redis://r"', "datasource.semaphores: there is no such setting"),
        ('[datasource.semaphore]\nuri = "redis://r"', "datasource.semaphore.uri: there is no such setting"),
    ],
)
def test_a_fault_names_its_setting(tmp_path: Path, text: str, fault: str) -> None:
    """And tells no password."""
    with pytest.raises(InvalidConfig) as caught:
        load(tmp_path, text)
    (found,) = caught.value.faults
    assert fault in found
    assert "geheim" not in found
    assert "4711" not in found


def test_passwords_are_shown_to_nobody(tmp_path: Path) -> None:
    """`config show` masks them, in URLs and by themselves; what is not said it shows as nothing."""
    (tmp_path / "tokimori.toml").write_text(
        '[datasource.semaphore]\nurl = "redis://u:geheim@r/1"\npassword = "geheim"\n'
    )
    machine = Machine(home=tmp_path, state_dir=tmp_path, config_files=(), cores=1)
    shown = {each.name: each.value for each in shown_settings(load_settings({}, {}, cwd=tmp_path, machine=machine))}
    assert shown["datasource.semaphore.url"] == "redis://u:***@r/1"
    assert shown["datasource.semaphore.password"] == "***"
    assert shown["datasource.job.password"] is None
