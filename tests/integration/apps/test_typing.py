"""What type checkers say of a module that uses all of the Python API, and what it does when it is run.

The wrong lines are checked below an import of the right module; each says what mypy and pyright call its fault.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import parcels
from tokimori.errors import InvalidInput
from tokimori.model.transitions import RunState
from tokimori.testing import Rehearsal

WRONG = """
import tokimori
from parcels import Address, Order, app, by_hand, deliver, draw, nightly, of_django, slots, test_a_year
from tokimori import perfectsched
order, place = Order(number=1), Address("Main Street")
deliver.enqueue("seven", place)  # arg-type reportArgumentType
deliver.enqueue(order)  # call-arg reportCallIssue
deliver.enqueue(order, place, expres=True)  # call-arg reportCallIssue
deliver.enqueue(order, place, express="yes")  # arg-type reportArgumentType
deliver.enqueue(order, place, True)  # call-arg reportCallIssue
deliver.enqueue(place, order)  # arg-type,arg-type reportArgumentType,reportArgumentType
deliver.at("2030-01-01T00:00:00Z").enqueue(order, 3)  # arg-type reportArgumentType
deliver.at(3.5).enqueue(order, place)  # arg-type reportArgumentType
deliver.asked(key="k").enqueue(to=place)  # call-arg reportCallIssue
deliver.asked(prioritty=5)  # call-arg reportCallIssue
deliver.asked(priority="high")  # arg-type reportArgumentType
deliver.enqueue_many([deliver.request("seven", place)])  # call-overload reportArgumentType
deliver.enqueue_many([order])  # list-item reportArgumentType
nightly.enqueue(7)  # arg-type reportArgumentType
number: int = deliver.enqueue(order, place).result()  # assignment reportAssignmentType
late: tokimori.Handle[int] = deliver.after("10m").enqueue(order, place)  # assignment reportAssignmentType
deliver.after([5])  # arg-type reportArgumentType
deliver.enqueue(order, place).result(timeout=[5])  # arg-type reportArgumentType
deliver.enqueue(order, place).aresults()  # attr-defined reportAttributeAccessIssue,reportUnknownMemberType
texts: list[str] = tokimori.gather([nightly.enqueue("south")])  # list-item reportAssignmentType
wrong: str = nightly("south")  # assignment reportAssignmentType
run: tokimori.Run = deliver(order, place)  # assignment reportAssignmentType
app.job("@daily", atempts=3)  # call-overload,call-overload reportCallIssue
app.job(attempts="three")  # call-overload reportArgumentType
app.handler(7)  # call-overload reportArgumentType,reportCallIssue
tokimori.App("a", prune="keep")  # arg-type reportArgumentType
tokimori.retry(attempts="three")  # arg-type reportArgumentType
draw(80)  # arg-type reportArgumentType
task = tokimori.current_task()
task.progress("half")  # arg-type reportArgumentType
task.retry(after=[5])  # arg-type reportArgumentType
task.finnish()  # attr-defined reportAttributeAccessIssue,reportUnknownMemberType
app.running(concurency=4)  # call-arg reportCallIssue
app.job(retry_wait=[5])  # call-overload reportArgumentType
app.job(payload=7)  # call-overload reportArgumentType
app.job(unique="forever")  # call-overload reportArgumentType
app.job(unique="until_end", unique_by=7)  # call-overload reportArgumentType
app.job(unique="until_end", merge=len)  # call-overload reportArgumentType
nightly.asked(on_duplicate="skip")  # arg-type reportArgumentType
tokimori.Worker(app, config={"app.processes": 4})  # arg-type reportArgumentType
with tokimori.open("memory:") as client, perfectsched.open("memory:") as schedules:
    client.jobs.add("hook", url="https://a.example", expect="200 OK")  # arg-type reportArgumentType
    client.jobs.add("hook", url="https://a.example", metod="PUT")  # call-arg reportCallIssue
    client.jobs.trigger("mail", debounce=[5])  # arg-type reportArgumentType
    client.jobs.trigger("mail", throtle=3)  # call-arg reportCallIssue
    client.claims.claim("resize", wait=[5])  # arg-type reportArgumentType
    client.claims.finish("run", "token")  # arg-type reportArgumentType
    schedules.add("hourly", "mail.send")  # call-arg reportCallIssue
    schedules.poll(alive_time=[5])  # arg-type reportArgumentType
    work = by_hand(client)  # arg-type reportArgumentType
    slots(client)  # arg-type reportArgumentType
app.run(4)  # arg-type reportArgumentType
pending = deliver.aenqueue("seven", place)  # arg-type reportArgumentType
app.job(retry_on="OSError")  # call-overload reportArgumentType
app.job(never_on=[3])  # call-overload reportArgumentType
app.job(rate_limit=10)  # call-overload reportArgumentType
app.job(backoff=[1, 2])  # call-overload reportArgumentType
app.on_start(7)  # type-var reportArgumentType
app.on_failure(nightly)  # type-var reportArgumentType
app.around("named")  # type-var reportArgumentType
app.around(test_a_year)  # type-var reportArgumentType
of_django(7)  # arg-type reportArgumentType
test_a_year(app)  # arg-type reportArgumentType
tokimori.App("a", version=[4])  # arg-type reportArgumentType
"""


def faults(program: str) -> list[tuple[int, str, str]]:
    """The lines that say a fault, and what mypy and pyright call it."""
    said = [(number, line.partition("  # ")[2].split()) for number, line in enumerate(program.split("\n"), 1)]
    return [(number, names[0], names[1]) for number, names in said if names]


def lines_of(found: list[tuple[int, str]]) -> dict[int, list[str]]:
    """The faults of each line."""
    return {line: sorted(each for at, each in found if at == line) for line, _ in sorted(found)}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The right module and the wrong lines, as a user has them: outside of this project."""
    (tmp_path / "parcels.py").write_text(Path(parcels.__file__).read_text())
    (tmp_path / "wrong.py").write_text(WRONG)
    return tmp_path


@pytest.mark.prove  # it reads pydantic as well
def test_mypy_checks_what_a_user_writes(program: Path) -> None:
    """With `--strict` the module passes, and each wrong line is reported, and no other one."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--python-executable", sys.executable]
    ended = subprocess.run(
        [*command, "parcels.py", "wrong.py"], capture_output=True, check=False, cwd=program, text=True, timeout=300
    )
    errors = [line.split(":", 2) for line in ended.stdout.splitlines() if ": error:" in line]
    assert [each for each in errors if each[0] != "wrong.py"] == [], ended.stderr
    found = [(int(line), text.rpartition("[")[2].rstrip("]")) for _, line, text in errors]
    assert lines_of(found) == {line: sorted(mypy.split(",")) for line, mypy, _ in faults(WRONG)}, ended.stdout


@pytest.mark.prove  # half a minute on a busy machine
def test_pyright_checks_what_a_user_writes(program: Path) -> None:
    """In its strict mode, as above."""
    (program / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    ended = subprocess.run(command, capture_output=True, check=False, cwd=program, text=True, timeout=300)
    errors = json.loads(ended.stdout)["generalDiagnostics"]
    assert [each for each in errors if not each["file"].endswith("wrong.py")] == [], ended.stderr
    found = [(each["range"]["start"]["line"] + 1, each["rule"]) for each in errors]
    assert lines_of(found) == {line: sorted(pyright.split(",")) for line, _, pyright in faults(WRONG)}, ended.stdout


def test_models_arrive_as_what_they_are() -> None:
    """A handler gets pydantic's model and the dataclass that were given; what does not fit is refused where it is."""
    with Rehearsal(parcels.app) as rehearsal:
        order = parcels.Order(number=7)
        run = parcels.deliver.enqueue(order, parcels.Address("Main Street"), express=True)
        rehearsal.run_due()
        (done,) = rehearsal.runs("deliver")
        assert (done.id, done.state, done.result) == (run.id, RunState.SUCCEEDED, '"express"')

        wrong = parcels.Order.model_construct(number=-1)
        with pytest.raises(InvalidInput, match=r"greater than 0 - at `\$\.order\.number`: -1"):
            parcels.deliver.enqueue(wrong, parcels.Address("Main Street"))
        with pytest.raises(InvalidInput, match=r"Expected `int`, got `str` - at `\$\.to\.floor`: \"two\""):
            parcels.deliver.enqueue(order, parcels.Address("Main Street", floor="two"))  # type: ignore[arg-type]


def test_the_module_has_a_hundred_lines() -> None:
    """So that it stays what one reads."""
    lines = [line for line in Path(parcels.__file__).read_text().splitlines() if line.strip()]
    assert len(lines) <= 100
