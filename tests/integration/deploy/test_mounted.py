"""A node that has everything from files, as a kubelet mounts them, and gets new ones while it works."""

import os
import shutil
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.integration.apps.conftest import until
from tests.integration.cli.conftest import Program
from tests.integration.http.site import Site, site_of
from tests.integration.http.test_tls import made
from tests.servers import mariadb, postgres, redis

pytestmark = [pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")]
SECRET, NEXT_SECRET = "s" * 43, "n" * 43
GROUP = 10_001
HBA = "local all {0} {1}\nlocal all all trust\n"


class Mount:
    """A folder of files that a kubelet mounts: name → ..data/name, ..data → a folder, all swapped by one rename."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._count = folder, 0
        folder.mkdir()
        folder.chmod(0o1777)

    def put(self, files: Mapping[str, str]) -> None:
        """Write the files anew, with mode 0440 and a group, and let the links lead to them."""
        self._count += 1
        inner = self.folder / f"..2026_11_29_{self._count}"
        inner.mkdir()
        for name, text in files.items():
            (inner / name).write_text(text)
            (inner / name).chmod(0o440)
            if os.geteuid() == 0:
                os.chown(inner / name, 0, GROUP)
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")
        (self.folder / "..data_tmp").symlink_to(inner.name)
        (self.folder / "..data_tmp").rename(self.folder / "..data")


class Asking:
    """Somebody who asks again and again, each time on a new connection; `faults`: what went wrong."""

    def __init__(self, site: Site, trusted: ssl.SSLContext | None) -> None:
        self._site, self._trusted, self._ends = site, trusted, threading.Event()
        self.count, self.faults, self.secret = 0, list[str](), SECRET
        self._threads = [threading.Thread(target=self._ask) for _ in range(2)]

    def _ask(self) -> None:
        number = 0
        while not self._ends.is_set():
            number += 1
            headers = {"Authorization": f"Bearer {self.secret}", "Content-Type": "application/json"}
            words = {"data": b"{}", "method": "POST"} if number % 2 else {}
            path = "api/v2/jobs/j/trigger" if number % 2 else "api/v2/jobs"
            asked = urllib.request.Request(f"{self._site.url}{path}", headers=headers, **words)  # type: ignore[arg-type]  # noqa: S310
            try:
                with urllib.request.urlopen(asked, timeout=20, context=self._trusted) as answer:  # noqa: S310
                    answer.read()
                self.count += 1
            except OSError as fault:
                self.faults.append(f"{path}: {fault}")
            time.sleep(0.02)

    def __enter__(self) -> "Asking":
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for each in self._threads:
            each.join()


def served(site: Site) -> str:
    """The certificate that a new connection gets."""
    host, port = site.url.removeprefix("https://").rstrip("/").split(":")
    return ssl.get_server_certificate((host, int(port)))


@pytest.mark.timeout(120)
def test_a_node_starts_from_files_alone_and_follows_them(program: Program, tmp_path: Path) -> None:
    """Store, secret and certificate come through links; new ones are served without a restart or a lost request."""
    mount, pairs = Mount(tmp_path / "mount"), []
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        pairs.append([each.read_text() for each in made(tmp_path / name)])
    (old, old_key), (new, new_key) = pairs
    store = program.environment.pop("TOKIMORI_STORE")
    files = {"store": store, "secret": SECRET + "\n", "tls.crt": old, "tls.key": old_key}
    mount.put(files)
    place = mount.folder
    program.environment |= {
        "TOKIMORI_STORE_FILE": str(place / "store"),
        "TOKIMORI_HTTP_SECRET_FILE": str(place / "secret"),
        "TOKIMORI_HTTP_TLS_CERT": str(place / "tls.crt"),
        "TOKIMORI_HTTP_TLS_KEY": str(place / "tls.key"),
    }
    program("job", "add", "j", "--noop")
    with site_of(program) as site, Asking(site, ssl.create_default_context(cadata=old + new)) as asking:
        assert site.secret == ""  # who has given a secret knows it: it is not printed
        until(lambda: asking.count > 5)
        assert served(site).split() == old.split()
        mount.put(files | {"secret": NEXT_SECRET, "tls.crt": new, "tls.key": new_key})
        until(lambda: served(site).split() == new.split())
        until(lambda: "http.secret_file has changed" in site.log)
        done = asking.count
        until(lambda: asking.count > done + 5)  # with the secret before
        asking.secret, done = NEXT_SECRET, asking.count
        until(lambda: asking.count > done + 5)
        assert asking.faults == []
    assert "every user of this machine may read" not in site.log
    assert len(program.json("run", "list", "-n", "1000")) >= asking.count // 2 - 2


Change = Callable[[str], None]


@pytest.fixture(params=["postgres", *(pytest.param(each, marks=pytest.mark.prove) for each in ("mariadb", "redis"))])
def guarded(request: pytest.FixtureRequest) -> Iterator[tuple[str, Change, Callable[[], None]]]:
    """A server that asks for a password: the URL with `{}` for it, how to change that, and how to end all sessions."""
    match request.param:
        case "postgres":
            base = postgres.Server()
            base.make("app")
            base.sql("CREATE ROLE ada LOGIN SUPERUSER PASSWORD 'one'")
            (base.folder / "data/pg_hba.conf").write_text(HBA.format("ada", "scram-sha-256"))
            base.sql("SELECT pg_reload_conf()")
            yield (
                f"postgresql://ada:{{}}@/app?host={base.folder}&port={base.port}",
                lambda word: void(base.sql(f"ALTER ROLE ada PASSWORD '{word}'")),
                lambda: void(base.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'ada'")),
            )
            base.remove()
        case "mariadb":
            tables = mariadb.Server()
            tables.make("app")
            tables.sql("CREATE USER ada@localhost IDENTIFIED BY 'one'; GRANT ALL ON app.* TO ada@localhost")
            yield (
                f"mariadb://ada:{{}}@/app?unix_socket={tables.socket}",
                lambda word: void(tables.sql(f"ALTER USER ada@localhost IDENTIFIED BY '{word}'")),
                lambda: tables.end_sessions(100),
            )
            tables.remove()
        case _:
            keys = redis.Server()
            keys.command("ACL", "SETUSER", "ada", "on", ">one", "~*", "&*", "+@all")
            yield (
                f"redis+unix://ada:{{}}@{keys.socket}",
                lambda word: void(keys.command("ACL", "SETUSER", "ada", "resetpass", f">{word}")),
                lambda: void(keys.command("CLIENT", "KILL", "USER", "ada")),
            )
            keys.remove()


def void(_: object) -> None:
    """Return nothing."""


@pytest.mark.prove
@pytest.mark.timeout(180)
def test_the_password_of_the_database_is_changed_under_load(
    program: Program, tmp_path: Path, guarded: tuple[str, Change, Callable[[], None]]
) -> None:
    """First the file, then the server: the one before holds until then; no run and no request is lost."""
    url, change, end_sessions = guarded
    mount = Mount(tmp_path / "mount")
    mount.put({"store": url.format("one"), "secret": SECRET})
    del program.environment["TOKIMORI_STORE"]
    program.environment |= {
        "TOKIMORI_STORE_FILE": str(mount.folder / "store"),
        "TOKIMORI_HTTP_SECRET_FILE": str(mount.folder / "secret"),
    }
    program.run("job", "add", "j", "--noop")
    program.run("job", "add", "tick", "--noop", "--schedule", "* * * * * *")
    with site_of(program) as site:
        with Asking(site, None) as asking:
            until(lambda: asking.count > 5)
            mount.put({"store": url.format("two"), "secret": SECRET})
            time.sleep(1.5)
            done = asking.count
            until(lambda: asking.count > done + 10)
            change("two")
            done = asking.count
            until(lambda: asking.count > done + 10)
            assert asking.faults == []
        end_sessions()  # each one after that is opened with the new password
        time.sleep(2)
        with Asking(site, None) as again:
            until(lambda: again.count > 20)
        assert again.faults == []
        assert "the address of the store has changed" in site.log
    ended = program.run("--json", "verify")
    assert ended.returncode == 0, ended.stdout
